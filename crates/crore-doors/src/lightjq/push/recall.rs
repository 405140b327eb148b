//! Who is there and what they have, as the store knows it: others change it too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crore::store::registry::Entry;
use crore::store::views::Query;
use crore_core::job::DEFAULT_LEASE;
use crore_core::{Delivery, Job, JobId, Name, State, Time};
use tokio::time::Instant;

use super::handle::{Shared, ours};
use super::registered::Registered;
use super::roster::Pick;
use crate::lightjq::translate::QUEUE;

/// Jobs and kinds that are looked at in one go.
const PAGE: usize = 1000;
/// A job that should have ended and has not is looked at again then.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Shared {
    /// Reads the registry; if there is somebody new in it, also what its workers have. `false`: somebody came
    /// or went meanwhile, so that what was read may be old.
    pub(super) async fn refresh(&self) -> Result<bool, crore::Error> {
        let before = self.roster().changes();
        let (workers, former) = latest(self.engine.workers().await?);
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
        for id in former {
            self.engine.remove_worker(id).await?;
        }
        if is_new {
            self.recall().await?;
        }
        Ok(true)
    }

    /// The kinds that are fetched for a worker: any (`Some(None)`), those that are there and that it may
    /// know, or none at all (`None`).
    pub(super) async fn kinds(
        &self,
        pick: &Pick,
    ) -> Result<Option<Option<Vec<Name>>>, crore::Error> {
        if pick.unknown.is_empty() {
            return Ok(Some(None));
        }
        let counts = self.engine.counts(Some(Name::new("queue", QUEUE)?)).await?;
        let kinds: BTreeSet<Name> = counts.into_iter().map(|count| count.kind).collect();
        let kinds: Vec<Name> = kinds.difference(&pick.unknown).take(PAGE).cloned().collect();
        Ok(if kinds.is_empty() { None } else { Some(Some(kinds)) })
    }

    /// Finds what workers have that registered before this process began.
    async fn recall(&self) -> Result<(), crore::Error> {
        let queue = Some(Name::new("queue", QUEUE)?);
        let mut after = None;
        loop {
            let query =
                Query { state: State::Running, queue: queue.clone(), kind: None, after, n: PAGE };
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

    /// Frees the places of those of these jobs that are not running any more, whoever ended them.
    pub(super) async fn look_at(&self, held: Vec<(JobId, Delivery)>) -> Result<(), crore::Error> {
        for some in held.chunks(PAGE) {
            let which = some.iter().map(|(id, _)| (*id).into()).collect();
            let jobs = self.engine.get_all(which).await?;
            let now = Instant::now();
            let mut roster = self.roster();
            for ((id, delivery), job) in some.iter().zip(jobs) {
                let runs =
                    |job: Job| job.live.state == State::Running && job.live.delivery == *delivery;
                if job.is_some_and(runs) {
                    roster.extend(*id, now + AGAIN_AFTER);
                } else {
                    roster.release(*id, *delivery);
                }
            }
        }
        Ok(())
    }

    /// By when somebody may be free, if nobody says so before.
    pub(super) fn until_somebody_may_be_free(&self) -> Instant {
        let (now, roster) = (Instant::now(), self.roster());
        let refresh = Duration::from(self.options.refresh_every);
        let look = if roster.held().is_empty() { refresh } else { AGAIN_AFTER };
        let at_most = now + refresh.min(look);
        roster.next_at(now).map_or(at_most, |at| at.min(at_most))
    }
}

/// The workers of this door, and those in whose place others are: of two that are called at one URL the later
/// counts. Whoever registered it before may not have heard of that, or has left before the former one was removed.
fn latest(entries: Vec<Entry>) -> (Vec<(Name, Registered)>, Vec<Name>) {
    let mut by_url: BTreeMap<String, (Option<Time>, Name, Registered)> = BTreeMap::new();
    let mut former = Vec::new();
    for Entry { name, value, expires_at, .. } in entries {
        let Some(worker) = ours(&value) else { continue };
        let url = worker.target.to_string();
        match by_url.get(&url) {
            // All end equally long after they began; of two that began in one millisecond every server takes the same,
            // the last by name.
            Some((other, ..)) if *other > expires_at => former.push(name),
            _ => {
                let other = by_url.insert(url, (expires_at, name, worker));
                former.extend(other.map(|(_, name, _)| name));
            }
        }
    }
    (by_url.into_values().map(|(_, name, worker)| (name, worker)).collect(), former)
}

/// When a job that is handed over now has come to its end, one way or another.
pub(super) fn ends_at(job: &Job) -> Instant {
    let timeout = job.spec.timeout.or(job.spec.lease).unwrap_or(DEFAULT_LEASE);
    Instant::now() + Duration::from(timeout) + Duration::from_millis(50)
}
