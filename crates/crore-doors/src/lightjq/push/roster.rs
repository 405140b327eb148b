//! Who may be given the next job: the push workers, what each has, and how each has behaved.
//!
//! Plain data under the dispatcher's lock. Time is passed in, and nothing here waits or calls.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crore_core::{Delivery, JobId, Name};
use crore_outbound::Target;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::registered::Registered;

/// How many jobs are taken for one worker in one go.
const AT_ONCE: u32 = 100;

/// How long those are left alone who do not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// After the first time; each time after that doubles it.
    pub(crate) first: Duration,
    /// At most.
    pub(crate) most: Duration,
    /// From then on a worker is gone.
    pub(crate) gone_after: Duration,
}

/// All push workers.
#[derive(Debug)]
pub(crate) struct Roster {
    patience: Patience,
    workers: BTreeMap<Name, Worker>,
    /// Who has which job.
    holders: BTreeMap<JobId, Name>,
    turns: u64,
    /// How often somebody came or went.
    changes: u64,
}

#[derive(Debug)]
struct Worker {
    registered: Registered,
    jobs: BTreeMap<JobId, Place>,
    /// Kinds that it does not know, and until when that is remembered.
    unknown: BTreeMap<Name, Instant>,
    /// How often in a row it did not answer.
    strikes: u32,
    failing_since: Option<Instant>,
    /// Whether it is being tried whether it answers again.
    is_tried: bool,
    not_before: Option<Instant>,
    turn: u64,
}

/// A job at a worker. Whoever speaks with the worker about it is told when it is over.
#[derive(Debug)]
struct Place {
    delivery: Delivery,
    ends_at: Instant,
    over: oneshot::Sender<()>,
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The worker.
    pub(crate) worker: Name,
    /// For how many jobs there is room.
    pub(crate) n: usize,
    /// Kinds that it does not know.
    pub(crate) unknown: BTreeSet<Name>,
}

/// What becomes of a worker that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is left alone for a while.
    Resting,
    /// It did not answer for too long, and is not on the roster any more.
    Gone,
}

impl Roster {
    pub(crate) const fn new(patience: Patience) -> Self {
        Self { patience, workers: BTreeMap::new(), holders: BTreeMap::new(), turns: 0, changes: 0 }
    }

    /// A worker is there. One that is known keeps what it has, and how it has behaved.
    pub(crate) fn join(&mut self, id: Name, registered: Registered) {
        self.changes += 1;
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.registered = registered;
            return;
        }
        let worker = Worker {
            registered,
            jobs: BTreeMap::new(),
            unknown: BTreeMap::new(),
            strikes: 0,
            failing_since: None,
            is_tried: false,
            not_before: None,
            turn: 0,
        };
        self.workers.insert(id, worker);
    }

    /// A worker is not there any more; `false`: it was not before.
    pub(crate) fn leave(&mut self, id: &Name) -> bool {
        let Some(worker) = self.workers.remove(id) else { return false };
        self.changes += 1;
        for job in worker.jobs.keys() {
            self.holders.remove(job);
        }
        true
    }

    /// Only these are there.
    pub(crate) fn keep_only(&mut self, ids: &BTreeSet<Name>) {
        let gone: Vec<Name> =
            self.workers.keys().filter(|id| !ids.contains(*id)).cloned().collect();
        for id in gone {
            self.leave(&id);
        }
    }

    pub(crate) fn get(&self, id: &Name) -> Option<&Registered> {
        self.workers.get(id).map(|worker| &worker.registered)
    }

    /// Those who are called at this URL.
    pub(crate) fn called_at(&self, target: &Target) -> Vec<Name> {
        let at = |(_, worker): &(&Name, &Worker)| worker.registered.target == *target;
        self.workers.iter().filter(at).map(|(id, _)| id.clone()).collect()
    }

    /// Who may be given jobs, in order: who has the least to do for what it can do, and among equals who
    /// has waited longest.
    pub(crate) fn picks(&mut self, now: Instant) -> Vec<Pick> {
        let mut free: Vec<(&Name, &mut Worker)> =
            self.workers.iter_mut().filter(|(_, worker)| worker.is_free(now)).collect();
        free.sort_by(|(_, a), (_, b)| a.load(b).then(a.turn.cmp(&b.turn)));
        let is_alone = free.len() == 1;
        let pick = |(id, worker): (&Name, &mut Worker)| {
            worker.unknown.retain(|_, until| now < *until);
            let room = if is_alone && worker.strikes == 0 { worker.room().min(AT_ONCE) } else { 1 };
            let unknown = worker.unknown.keys().cloned().collect();
            Pick { worker: id.clone(), n: room as usize, unknown }
        };
        free.into_iter().map(pick).collect()
    }

    /// Another number whenever somebody came or went.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// How many workers there are.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether somebody has this job.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.holders.contains_key(&job)
    }

    /// A worker is given a job; `None`: it has left. What this gives is told when that is over, and
    /// nothing if the worker leaves before.
    pub(crate) fn give(
        &mut self,
        id: &Name,
        job: (JobId, Delivery),
        ends_at: Instant,
    ) -> Option<oneshot::Receiver<()>> {
        let worker = self.workers.get_mut(id)?;
        let (over, told) = oneshot::channel();
        self.turns += 1;
        worker.turn = self.turns;
        worker.is_tried = worker.strikes > 0;
        let (job, delivery) = job;
        worker.jobs.insert(job, Place { delivery, ends_at, over });
        self.holders.insert(job, id.clone());
        Some(told)
    }

    /// A delivery is over; `false`: it was before, or nobody here had it.
    pub(crate) fn release(&mut self, job: JobId, delivery: Delivery) -> bool {
        let Some(worker) = self.holders.get(&job).and_then(|id| self.workers.get_mut(id)) else {
            return false;
        };
        if worker.jobs.get(&job).is_none_or(|place| place.delivery != delivery) {
            return false;
        }
        if let Some(place) = worker.jobs.remove(&job) {
            // Perhaps nobody listens: the worker has answered, or was given this before a restart.
            let _ = place.over.send(());
        }
        self.holders.remove(&job);
        true
    }

    /// What is at workers.
    pub(crate) fn held(&self) -> Vec<(JobId, Delivery)> {
        let jobs = self.workers.values().flat_map(|worker| &worker.jobs);
        jobs.map(|(job, place)| (*job, place.delivery)).collect()
    }

    /// What is at workers and should have come to an end.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<(JobId, Delivery)> {
        let jobs = self.workers.values().flat_map(|worker| &worker.jobs);
        let overdue = jobs.filter(|(_, place)| place.ends_at <= now);
        overdue.map(|(job, place)| (*job, place.delivery)).collect()
    }

    /// Something that should have come to an end has not: it is looked at again then.
    pub(crate) fn extend(&mut self, job: JobId, ends_at: Instant) {
        let worker = self.holders.get(&job).and_then(|id| self.workers.get_mut(id));
        if let Some(place) = worker.and_then(|worker| worker.jobs.get_mut(&job)) {
            place.ends_at = place.ends_at.max(ends_at);
        }
    }

    /// A worker has answered.
    pub(crate) fn heard(&mut self, id: &Name) {
        if let Some(worker) = self.workers.get_mut(id) {
            (worker.strikes, worker.failing_since, worker.is_tried) = (0, None, false);
        }
    }

    /// A worker has not answered.
    pub(crate) fn failed(&mut self, id: &Name, now: Instant) -> Standing {
        let Some(worker) = self.workers.get_mut(id) else { return Standing::Gone };
        let since = *worker.failing_since.get_or_insert(now);
        if now.duration_since(since) >= self.patience.gone_after {
            self.leave(id);
            return Standing::Gone;
        }
        // Those who were asked at the same time know no more than the first of them.
        if worker.not_before.is_none_or(|until| until <= now) {
            let rest = self.patience.first.saturating_mul(1 << worker.strikes.min(16));
            worker.not_before = Some(now + rest.min(self.patience.most));
            worker.strikes = worker.strikes.saturating_add(1);
        }
        worker.is_tried = false;
        Standing::Resting
    }

    /// A worker wants nothing until then.
    pub(crate) fn rest(&mut self, id: &Name, until: Instant) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.not_before = worker.not_before.max(Some(until));
        }
    }

    /// A worker does not know a kind, and is not asked about it until then.
    pub(crate) fn does_not_know(&mut self, id: &Name, kind: Name, until: Instant) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.unknown.insert(kind, until);
        }
    }

    /// When, by time alone, somebody may be free who is not now.
    pub(crate) fn next_at(&self, now: Instant) -> Option<Instant> {
        let rests = self.workers.values().filter_map(|worker| worker.not_before);
        let ends = self.workers.values().flat_map(|worker| worker.jobs.values());
        rests.chain(ends.map(|place| place.ends_at)).filter(|at| now < *at).min()
    }
}

impl Worker {
    fn room(&self) -> u32 {
        let busy = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        self.registered.max_jobs.saturating_sub(busy)
    }

    fn is_free(&self, now: Instant) -> bool {
        self.room() > 0 && !self.is_tried && self.not_before.is_none_or(|until| until <= now)
    }

    /// Which of two has less to do for what it can do.
    fn load(&self, other: &Self) -> Ordering {
        let share = |of: &Self, to: &Self| of.jobs.len() as u64 * u64::from(to.registered.max_jobs);
        share(self, other).cmp(&share(other, self))
    }
}

#[cfg(test)]
mod tests;
