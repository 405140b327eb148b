//! The roster of push workers: picks the worker for the next job, by the jobs that each worker holds and its recent
//! failures.
//!
//! Plain data under the dispatcher's lock. Time is passed in; nothing here blocks or does I/O.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crore_core::{Delivery, JobId, Name};
use crore_outbound::Target;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::registration::Registration;

/// Maximum jobs that one fetch takes for one worker.
const MAX_FETCH: u32 = 100;

/// Back-off for a worker that does not respond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureBackoff {
    /// Pause after the first failure; each further one doubles it.
    pub(crate) first: Duration,
    /// The longest pause.
    pub(crate) max: Duration,
    /// A worker that fails for this long is removed.
    pub(crate) gone_after: Duration,
}

/// All push workers.
#[derive(Debug)]
pub(crate) struct Roster {
    backoff: FailureBackoff,
    workers: BTreeMap<Name, RosterEntry>,
    /// The worker of each job.
    holders: BTreeMap<JobId, Name>,
    turns: u64,
    /// How often a worker joined or left.
    changes: u64,
}

#[derive(Debug)]
struct RosterEntry {
    registration: Registration,
    jobs: BTreeMap<JobId, JobSlot>,
    /// Kinds that it does not know, each with the end of its exclusion.
    excluded: BTreeMap<Name, Instant>,
    /// Consecutive requests without a response.
    failures: u32,
    failing_since: Option<Instant>,
    /// Whether a single job is being posted to a failing worker, to find out whether it responds again.
    is_probed: bool,
    paused_until: Option<Instant>,
    turn: u64,
}

/// A job at a worker. `ended` notifies the task that posted the job.
#[derive(Debug)]
struct JobSlot {
    delivery: Delivery,
    ends_at: Instant,
    ended: oneshot::Sender<()>,
}

/// A worker that may be given jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerPick {
    /// The worker.
    pub(crate) worker: Name,
    /// Maximum jobs to give.
    pub(crate) n: usize,
    /// Kinds that it does not know.
    pub(crate) excluded: BTreeSet<Name>,
}

/// State of a worker after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureState {
    /// The worker is given no jobs for a while.
    Paused,
    /// The worker failed for too long, and was removed from the roster.
    Gone,
}

impl Roster {
    pub(crate) const fn new(backoff: FailureBackoff) -> Self {
        Self { backoff, workers: BTreeMap::new(), holders: BTreeMap::new(), turns: 0, changes: 0 }
    }

    /// Adds a worker. A worker that is on the roster keeps its jobs and its failures.
    pub(crate) fn join(&mut self, id: Name, registration: Registration) {
        self.changes += 1;
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.registration = registration;
            return;
        }
        let worker = RosterEntry {
            registration,
            jobs: BTreeMap::new(),
            excluded: BTreeMap::new(),
            failures: 0,
            failing_since: None,
            is_probed: false,
            paused_until: None,
            turn: 0,
        };
        self.workers.insert(id, worker);
    }

    /// Removes a worker; `false`: it was not there.
    pub(crate) fn leave(&mut self, id: &Name) -> bool {
        let Some(worker) = self.workers.remove(id) else { return false };
        self.changes += 1;
        for job in worker.jobs.keys() {
            self.holders.remove(job);
        }
        true
    }

    /// Removes all other workers.
    pub(crate) fn keep_only(&mut self, ids: &BTreeSet<Name>) {
        let gone: Vec<Name> =
            self.workers.keys().filter(|id| !ids.contains(*id)).cloned().collect();
        for id in gone {
            self.leave(&id);
        }
    }

    pub(crate) fn get(&self, id: &Name) -> Option<&Registration> {
        self.workers.get(id).map(|worker| &worker.registration)
    }

    /// The workers that are called at this URL.
    pub(crate) fn called_at(&self, target: &Target) -> Vec<Name> {
        let at = |(_, worker): &(&Name, &RosterEntry)| worker.registration.target == *target;
        self.workers.iter().filter(at).map(|(id, _)| id.clone()).collect()
    }

    /// The workers that may be given jobs: the least loaded first, and among equals the one that was given a job
    /// longest ago.
    pub(crate) fn picks(&mut self, now: Instant) -> Vec<WorkerPick> {
        let mut free: Vec<(&Name, &mut RosterEntry)> =
            self.workers.iter_mut().filter(|(_, worker)| worker.is_free(now)).collect();
        free.sort_by(|(_, a), (_, b)| a.load(b).then(a.turn.cmp(&b.turn)));
        let is_alone = free.len() == 1;
        let pick = |(id, worker): (&Name, &mut RosterEntry)| {
            worker.excluded.retain(|_, until| now < *until);
            let room =
                if is_alone && worker.failures == 0 { worker.room().min(MAX_FETCH) } else { 1 };
            let excluded = worker.excluded.keys().cloned().collect();
            WorkerPick { worker: id.clone(), n: room as usize, excluded }
        };
        free.into_iter().map(pick).collect()
    }

    /// A number that grows whenever a worker joins or leaves.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of workers.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether a worker has this job.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.holders.contains_key(&job)
    }

    /// Gives a worker a job; `None`: it has left. The receiver resolves when the delivery ends, with an error if
    /// the worker leaves before.
    pub(crate) fn give(
        &mut self,
        id: &Name,
        job: (JobId, Delivery),
        ends_at: Instant,
    ) -> Option<oneshot::Receiver<()>> {
        let worker = self.workers.get_mut(id)?;
        let (ended, receiver) = oneshot::channel();
        self.turns += 1;
        worker.turn = self.turns;
        worker.is_probed = worker.failures > 0;
        let (job, delivery) = job;
        worker.jobs.insert(job, JobSlot { delivery, ends_at, ended });
        self.holders.insert(job, id.clone());
        Some(receiver)
    }

    /// Ends a delivery; `false`: it had ended before, or no worker here had it.
    pub(crate) fn release(&mut self, job: JobId, delivery: Delivery) -> bool {
        let Some(worker) = self.holders.get(&job).and_then(|id| self.workers.get_mut(id)) else {
            return false;
        };
        if worker.jobs.get(&job).is_none_or(|slot| slot.delivery != delivery) {
            return false;
        }
        if let Some(slot) = worker.jobs.remove(&job) {
            // There is no receiver if the worker has responded, or was given the job before a restart.
            let _ = slot.ended.send(());
        }
        self.holders.remove(&job);
        true
    }

    /// All deliveries at workers.
    pub(crate) fn held(&self) -> Vec<(JobId, Delivery)> {
        let jobs = self.workers.values().flat_map(|worker| &worker.jobs);
        jobs.map(|(job, slot)| (*job, slot.delivery)).collect()
    }

    /// Deliveries at workers that should have ended.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<(JobId, Delivery)> {
        let jobs = self.workers.values().flat_map(|worker| &worker.jobs);
        let overdue = jobs.filter(|(_, slot)| slot.ends_at <= now);
        overdue.map(|(job, slot)| (*job, slot.delivery)).collect()
    }

    /// Moves the expected end of an overdue delivery.
    pub(crate) fn extend(&mut self, job: JobId, ends_at: Instant) {
        let worker = self.holders.get(&job).and_then(|id| self.workers.get_mut(id));
        if let Some(slot) = worker.and_then(|worker| worker.jobs.get_mut(&job)) {
            slot.ends_at = slot.ends_at.max(ends_at);
        }
    }

    /// Records a response, and clears earlier failures.
    pub(crate) fn answered(&mut self, id: &Name) {
        if let Some(worker) = self.workers.get_mut(id) {
            (worker.failures, worker.failing_since, worker.is_probed) = (0, None, false);
        }
    }

    /// Records a failure.
    pub(crate) fn failed(&mut self, id: &Name, now: Instant) -> FailureState {
        let Some(worker) = self.workers.get_mut(id) else { return FailureState::Gone };
        let since = *worker.failing_since.get_or_insert(now);
        if now.duration_since(since) >= self.backoff.gone_after {
            self.leave(id);
            return FailureState::Gone;
        }
        // Requests that were sent at the same time count as one failure.
        if worker.paused_until.is_none_or(|until| until <= now) {
            let pause = self.backoff.first.saturating_mul(1 << worker.failures.min(16));
            worker.paused_until = Some(now + pause.min(self.backoff.max));
            worker.failures = worker.failures.saturating_add(1);
        }
        worker.is_probed = false;
        FailureState::Paused
    }

    /// Gives a worker no jobs until then.
    pub(crate) fn pause(&mut self, id: &Name, until: Instant) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.paused_until = worker.paused_until.max(Some(until));
        }
    }

    /// Gives a worker no jobs of a kind until then.
    pub(crate) fn exclude_kind(&mut self, id: &Name, kind: Name, until: Instant) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.excluded.insert(kind, until);
        }
    }

    /// The next time at which a worker may become free without an event.
    pub(crate) fn next_at(&self, now: Instant) -> Option<Instant> {
        let pauses = self.workers.values().filter_map(|worker| worker.paused_until);
        let ends = self.workers.values().flat_map(|worker| worker.jobs.values());
        pauses.chain(ends.map(|slot| slot.ends_at)).filter(|at| now < *at).min()
    }
}

impl RosterEntry {
    fn room(&self) -> u32 {
        let busy = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        self.registration.max_jobs.saturating_sub(busy)
    }

    fn is_free(&self, now: Instant) -> bool {
        self.room() > 0 && !self.is_probed && self.paused_until.is_none_or(|until| until <= now)
    }

    /// Compares loads: jobs in relation to the maximum.
    fn load(&self, other: &Self) -> Ordering {
        let share =
            |of: &Self, to: &Self| of.jobs.len() as u64 * u64::from(to.registration.max_jobs);
        share(self, other).cmp(&share(other, self))
    }
}

#[cfg(test)]
mod tests;
