//! Claims and limits.

use std::collections::BTreeSet;

use crore_core::fair::{Turn, after_claim};
use crore_core::limit::{Limit, LimitKey, Tat};
use crore_core::unique::UniqueHold;
use crore_core::{Delivery, Job, JobId, Name, Revision, State, Time};
use crore_store::jobs::{Claim, Claimed, QueueOrder};
use crore_store::registry::{RegistryTable, RegistryValue};

use super::records::Records;

/// Why a job cannot start.
#[derive(Default)]
pub(super) struct RefusedStart {
    /// The new states of its exhausted rates, although no permit was taken.
    pub(super) tats: Vec<(LimitKey, Tat)>,
    /// When to try again.
    pub(super) next_at: Option<Time>,
    /// Rates that are reserved for the job until they have what it costs.
    pub(super) reserves: Vec<LimitKey>,
}

impl Records {
    pub(super) fn claim(&mut self, ask: &Claim) -> Claimed {
        let rounds: Vec<&[Name]> = match ask.order {
            QueueOrder::Merged => vec![&ask.queues],
            QueueOrder::Strict => ask.queues.chunks(1).collect(),
        };
        let (mut jobs, mut next_at) = (Vec::new(), None::<Time>);
        for queues in rounds {
            let mut refused = BTreeSet::new();
            while jobs.len() < ask.n
                && let Some(id) = self.next_ready(queues, ask, &refused)
            {
                let reserved = self.reserved.len();
                match self.start(id, &ask.worker) {
                    Ok(job) => {
                        jobs.push(job);
                        self.reserved.retain(|_, (of, ..)| *of != id);
                        if self.reserved.len() < reserved {
                            // The rates are free for the others.
                            refused.clear();
                        }
                    }
                    Err(at) => {
                        refused.insert(id);
                        next_at = next_at.into_iter().chain(at).min();
                    }
                }
            }
        }
        let next_at = next_at.filter(|_| jobs.len() < ask.n);
        Claimed { now: self.now, jobs, next_at }
    }

    /// All jobs that a claim could deliver now; determines which queues to wake.
    pub(super) fn claimable(&self) -> BTreeSet<(Name, JobId, Revision)> {
        let ready = self.jobs.values().filter(|job| self.is_open(job));
        let ready = ready.filter(|job| self.permits(job).is_ok());
        ready.map(|job| (job.spec.queue.clone(), job.id, job.live.revision)).collect()
    }

    /// The next ready job of these queues that no limit has refused. Turns are compared within a queue only.
    fn next_ready(&self, queues: &[Name], ask: &Claim, refused: &BTreeSet<JobId>) -> Option<JobId> {
        let ready = self.jobs.values().filter(|job| self.is_open(job));
        let of_kind = |kind: &Name| ask.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        let ready = ready.filter(|job| of_kind(&job.spec.kind));
        let ready = ready
            .filter(|job| ask.versions.satisfy(&job.spec.kind, job.spec.worker_version.as_deref()));
        let ready: Vec<&Job> = ready.filter(|job| !refused.contains(&job.id)).collect();
        let best_of = |queue: &Name| {
            let ready = ready.iter().filter(|job| job.spec.queue == *queue);
            ready.min_by_key(|job| (job.spec.priority, self.turn(job), job.live.due, job.id))
        };
        let heads = queues.iter().filter_map(best_of);
        heads.min_by_key(|job| (job.spec.priority, job.live.due, job.id)).map(|job| job.id)
    }

    /// The turn of a job's fair key; 0 without one.
    fn turn(&self, job: &Job) -> Turn {
        let key = job.spec.fair.clone().map(|key| (job.spec.queue.clone(), key));
        key.and_then(|key| self.turns.get(&key).copied()).unwrap_or_default()
    }

    /// Moves the fair key of a claimed job to its next turn.
    fn advance_turn(&mut self, job: &Job) {
        let (queue, Some(key)) = (&job.spec.queue, &job.spec.fair) else { return };
        let weight = self.settings(queue).fair.map_or(1, |fair| fair.weight(key.as_str()));
        let turn = self.turn(job);
        let virtual_time = self.virtual_times.entry(queue.clone()).or_default();
        let next;
        (*virtual_time, next) = after_claim(turn, *virtual_time, weight);
        self.turns.insert((queue.clone(), key.clone()), next);
    }

    /// Whether a job is ready, its deadline not over, and its queue not paused.
    fn is_open(&self, job: &Job) -> bool {
        let is_ready = job.live.state == State::Ready && !job.live.is_expired(self.now);
        is_ready && !self.settings(&job.spec.queue).paused
    }

    /// Delivers a ready job if its buckets have permits; otherwise returns when a rate has one.
    fn start(&mut self, id: JobId, worker: &Name) -> Result<Job, Option<Time>> {
        match self.permits(&self.jobs[&id]) {
            Ok(taken) => self.tats.extend(taken),
            Err(refused) => {
                self.tats.extend(refused.tats);
                let priority = self.jobs[&id].spec.priority;
                let reserve = |key| Some((key, (id, priority, refused.next_at?)));
                self.reserved.extend(refused.reserves.into_iter().filter_map(reserve));
                return Err(refused.next_at);
            }
        }
        self.delivery += 1;
        let job = self.jobs.get_mut(&id).expect("it is ready");
        job.live.claim(Delivery(self.delivery), self.now, job.spec.lease, worker);
        if job.spec.unique.as_ref().is_some_and(|unique| unique.hold == UniqueHold::UntilStart) {
            self.locks.retain(|_, lock| lock.job != id);
        }
        let job = job.clone();
        self.advance_turn(&job);
        Ok(self.with_event(job))
    }

    /// The new states of the rates if the job takes a permit from each of its buckets. Buckets are checked in
    /// order, concurrency before rate, and the first without a permit ends the check.
    fn permits(&self, job: &Job) -> Result<Vec<(LimitKey, Tat)>, RefusedStart> {
        if self.has_costs(&job.spec) {
            return self.permits_by_cost(job);
        }
        let mut rates = Vec::new();
        for key in &job.spec.limits {
            let Some(limit) = self.limit(&key.limit) else { continue };
            self.check_held(key, limit)?;
            let Some(rate) = limit.rate else { continue };
            let tat = self.tats.get(key).copied().unwrap_or_default();
            let taken = rate.take(tat, self.now, 1);
            if taken.granted == 0 {
                let next_at = rate.next_at(tat, self.now);
                let (tats, next_at) = (vec![(key.clone(), taken.tat)], Some(next_at));
                return Err(RefusedStart { tats, next_at, reserves: Vec::new() });
            }
            rates.push((key.clone(), taken.tat));
        }
        Ok(rates)
    }

    /// Number of permits in use of a bucket's concurrency.
    pub(super) fn running(&self, key: &LimitKey) -> usize {
        let running = self.jobs.values().filter(|job| job.live.state == State::Running);
        running.filter(|job| job.spec.limits.contains(key)).count()
    }

    pub(super) fn limit(&self, name: &Name) -> Option<&Limit> {
        match &self.entry(RegistryTable::Limits, name)?.value {
            RegistryValue::Limit(limit) => Some(limit),
            _ => None,
        }
    }
}
