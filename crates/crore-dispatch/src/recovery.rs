//! Synchronizes the roster with the store: registered workers and the jobs that they hold, which other servers
//! change too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crore::store::registry::RegistryEntry;
use crore::store::views::ListQuery;
use crore_core::job::DEFAULT_LEASE;
use crore_core::{Delivery, Invalid, Job, JobId, Name, State, Time};
use tokio::time::Instant;

use crate::handle::{DispatcherState, MAX_WORKERS};
use crate::registration::Registration;
use crate::roster::WorkerPick;

/// Maximum jobs and kinds of one call.
const PAGE: usize = 1000;
/// Interval at which an overdue delivery is inspected again.
const INSPECT_EVERY: Duration = Duration::from_secs(1);

impl DispatcherState {
    /// Reads the registry, and if it has a new worker, also the jobs that workers hold. `false`: a worker joined or
    /// left meanwhile, so the entries that were read may be outdated and are ignored.
    pub(crate) async fn refresh(&self) -> Result<bool, crore::Error> {
        let before = self.roster().changes();
        let (workers, replaced) = self.latest(self.engine.workers().list().await?);
        let is_new = {
            let mut roster = self.roster();
            if roster.changes() != before {
                return Ok(false);
            }
            roster.keep_only(&workers.iter().map(|(id, _)| id.clone()).collect());
            let is_new = workers.iter().any(|(id, _)| roster.get(id).is_none());
            workers.into_iter().for_each(|(id, worker)| roster.join(id, worker));
            is_new
        };
        for id in replaced {
            self.engine.workers().remove(id).await?;
        }
        if is_new {
            self.recover_held().await?;
        }
        Ok(true)
    }

    /// The kinds to fetch for a worker: any (`Some(None)`), those with jobs that are not excluded, or none at all
    /// (`None`).
    pub(crate) async fn kinds(
        &self,
        pick: &WorkerPick,
    ) -> Result<Option<Option<Vec<Name>>>, crore::Error> {
        if pick.excluded.is_empty() {
            return Ok(Some(None));
        }
        let counts = self.engine.jobs().counts(Some(self.queue()?)).await?;
        let kinds: BTreeSet<Name> = counts.into_iter().map(|count| count.kind).collect();
        let kinds: Vec<Name> = kinds.difference(&pick.excluded).take(PAGE).cloned().collect();
        Ok(if kinds.is_empty() { None } else { Some(Some(kinds)) })
    }

    /// Adds running jobs that the roster lacks to their workers: jobs delivered before this process started, or by
    /// another server.
    async fn recover_held(&self) -> Result<(), crore::Error> {
        let queue = Some(self.queue()?);
        let mut after = None;
        loop {
            let query = ListQuery {
                state: State::Running,
                queue: queue.clone(),
                kind: None,
                key: None,
                after,
                n: PAGE,
            };
            let page = self.engine.list(query).await?;
            let mut roster = self.roster();
            for job in page.jobs {
                if let Some(id) = &job.live.worker
                    && !roster.has(job.id)
                {
                    roster.give(id, (job.id, job.live.delivery), ends_at(&job));
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Frees the slots of those deliveries that are over, however they ended.
    pub(crate) async fn release_ended(
        &self,
        held: Vec<(JobId, Delivery)>,
    ) -> Result<(), crore::Error> {
        for some in held.chunks(PAGE) {
            let which = some.iter().map(|(id, _)| (*id).into()).collect();
            let jobs = self.engine.jobs().get_all(which).await?;
            let now = Instant::now();
            let mut roster = self.roster();
            for ((id, delivery), job) in some.iter().zip(jobs) {
                let runs =
                    |job: Job| job.live.state == State::Running && job.live.delivery == *delivery;
                if job.is_some_and(runs) {
                    roster.extend(*id, now + INSPECT_EVERY);
                } else {
                    roster.release(*id, *delivery);
                }
            }
        }
        Ok(())
    }

    /// When to look for a free worker again, unless a change is signalled before.
    pub(crate) fn free_at(&self) -> Instant {
        let (now, roster) = (Instant::now(), self.roster());
        let refresh = Duration::from(self.options.refresh_every);
        let inspect = if roster.held().is_empty() { refresh } else { INSPECT_EVERY };
        let at_most = now + refresh.min(inspect);
        roster.next_at(now).map_or(at_most, |at| at.min(at_most))
    }

    /// The workers of this protocol, and the ids of those that were replaced: of two workers with the same URL the
    /// later registration counts. A server that crashes between the two writes of a registration leaves the earlier
    /// one behind.
    fn latest(&self, entries: Vec<RegistryEntry>) -> (Vec<(Name, Registration)>, Vec<Name>) {
        let mut by_url: BTreeMap<String, (Option<Time>, Name, Registration)> = BTreeMap::new();
        let mut replaced = Vec::new();
        for entry in entries {
            let Some(worker) = self.read(&entry) else { continue };
            let RegistryEntry { name, expires_at, .. } = entry;
            let url = worker.target.to_string();
            match by_url.get(&url) {
                // All registrations have the same lifetime, so the later one expires later. Of two in the same
                // millisecond, every server takes the last by name.
                Some((other, ..)) if *other > expires_at => replaced.push(name),
                _ => {
                    let other = by_url.insert(url, (expires_at, name, worker));
                    replaced.extend(other.map(|(_, name, _)| name));
                }
            }
        }
        let workers = by_url.into_values().map(|(_, name, worker)| (name, worker));
        (workers.take(MAX_WORKERS).collect(), replaced)
    }

    pub(crate) fn queue(&self) -> Result<Name, Invalid> {
        Name::new("queue", self.protocol.queue())
    }
}

/// When a delivery that starts now is over, however it ends.
pub(crate) fn ends_at(job: &Job) -> Instant {
    let timeout = job.spec.timeout.or(job.spec.lease).unwrap_or(DEFAULT_LEASE);
    Instant::now() + Duration::from(timeout) + Duration::from_millis(50)
}
