//! The jobs that this engine handed out: a report about one needs no second look into the store, and
//! one that takes too long is noticed.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::id::ById;
use crore_core::{Delivery, Job, JobId, Time};
use crore_store::jobs::Which;

use crate::timers::NEVER;

/// More than this are not kept at hand; a report about another one looks into the store.
const MOST: usize = 1 << 20;

/// Jobs that were handed out, as they were then.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Jobs>);

#[derive(Debug, Default)]
struct Jobs {
    by_id: ById<Job>,
    /// When those with a timeout have taken too long.
    ends: BTreeSet<(Time, JobId, Delivery)>,
}

fn end_of(job: &Job) -> Option<(Time, JobId, Delivery)> {
    let timeout = job.spec.timeout?;
    Some((job.live.started_at.after(timeout), job.id, job.live.delivery))
}

impl Jobs {
    fn take(&mut self, id: JobId) -> Option<Job> {
        match self.by_id.entry(id) {
            Entry::Occupied(job) if job.get().spec.timeout.is_none() => Some(job.remove()),
            Entry::Occupied(job) => Some(job.get().clone()),
            Entry::Vacant(_) => None,
        }
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs were handed out; gives when the first of them has taken too long.
    pub(crate) fn add(&self, jobs: &[Job]) -> Time {
        let mut running = self.lock();
        let mut first = NEVER;
        for job in jobs {
            if let Some(end) = end_of(job) {
                first = first.min(end.0);
                running.ends.insert(end);
            }
            if running.by_id.len() < MOST {
                running.by_id.insert(job.id, job.clone());
            }
        }
        first
    }

    /// A job as it was handed out, for whoever is about to change it: it need not be at hand any more,
    /// unless it may take too long.
    pub(crate) fn take(&self, id: JobId) -> Option<Job> {
        self.lock().take(id)
    }

    /// The same of many.
    pub(crate) fn take_all<'a>(&self, which: impl Iterator<Item = &'a Which>) -> Vec<Option<Job>> {
        let mut running = self.lock();
        which
            .map(|which| match which {
                Which::Id(id) => running.take(*id),
                Which::Client(_) => None,
            })
            .collect()
    }

    /// A job is not as it was handed out any more; if it still runs, its run may still take too long.
    pub(crate) fn forget(&self, id: JobId) {
        self.lock().by_id.remove(&id);
    }

    /// A run has come to its end.
    pub(crate) fn ended(&self, job: &Job) {
        if let Some(end) = end_of(job) {
            self.lock().ends.remove(&end);
        }
    }

    /// Up to `n` runs that have taken too long.
    pub(crate) fn overdue(&self, now: Time, n: usize) -> Vec<(Time, JobId, Delivery)> {
        let running = self.lock();
        running.ends.iter().take_while(|(at, ..)| *at <= now).take(n).copied().collect()
    }

    /// These runs were ended; gives when the next one has taken too long.
    pub(crate) fn settled(&self, overdue: &[(Time, JobId, Delivery)]) -> Time {
        let mut running = self.lock();
        for end in overdue {
            running.ends.remove(end);
        }
        running.ends.first().map_or(NEVER, |(at, ..)| *at)
    }
}
