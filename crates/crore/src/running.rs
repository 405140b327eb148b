//! Cache of the jobs that this engine handed out. A report needs no read from the store, and runs past their
//! timeout are found.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::id::JobMap;
use crore_core::{Delivery, Job, JobId, Time};
use crore_store::jobs::JobSelector;

use crate::timers::NEVER;

/// Maximum cached jobs; reports about others read the store.
const MAX_JOBS: usize = 1 << 20;

/// Jobs as they were when they were handed out.
#[derive(Debug, Default)]
pub(crate) struct RunningJobs(Mutex<RunningJobTable>);

#[derive(Debug, Default)]
struct RunningJobTable {
    by_id: JobMap<Job>,
    /// Timeouts of the runs that have one.
    timeouts: BTreeSet<(Time, JobId, Delivery)>,
}

fn timeout_of(job: &Job) -> Option<(Time, JobId, Delivery)> {
    let timeout = job.spec.timeout?;
    Some((job.live.started_at.after(timeout), job.id, job.live.delivery))
}

impl RunningJobTable {
    fn take(&mut self, id: JobId) -> Option<Job> {
        match self.by_id.entry(id) {
            Entry::Occupied(job) if job.get().spec.timeout.is_none() => Some(job.remove()),
            Entry::Occupied(job) => Some(job.get().clone()),
            Entry::Vacant(_) => None,
        }
    }
}

impl RunningJobs {
    fn lock(&self) -> MutexGuard<'_, RunningJobTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds jobs that were handed out; returns the earliest timeout among them.
    pub(crate) fn add(&self, jobs: &[Job]) -> Time {
        let mut running = self.lock();
        let mut first = NEVER;
        for job in jobs {
            if let Some(end) = timeout_of(job) {
                first = first.min(end.0);
                running.timeouts.insert(end);
            }
            if running.by_id.len() < MAX_JOBS {
                running.by_id.insert(job.id, job.clone());
            }
        }
        first
    }

    /// A job as it was handed out, to decide on a change. It is removed from the cache, unless its run has a
    /// timeout.
    pub(crate) fn take(&self, id: JobId) -> Option<Job> {
        self.lock().take(id)
    }

    /// The same for several jobs.
    pub(crate) fn take_all<'a>(
        &self,
        which: impl Iterator<Item = &'a JobSelector>,
    ) -> Vec<Option<Job>> {
        let mut running = self.lock();
        which
            .map(|which| match which {
                JobSelector::Id(id) => running.take(*id),
                JobSelector::Client(_) => None,
            })
            .collect()
    }

    /// Removes an outdated job from the cache. The timeout of its run stays.
    pub(crate) fn forget(&self, id: JobId) {
        self.lock().by_id.remove(&id);
    }

    /// Removes the timeout of a run that has ended.
    pub(crate) fn remove_timeout(&self, job: &Job) {
        if let Some(end) = timeout_of(job) {
            self.lock().timeouts.remove(&end);
        }
    }

    /// Up to `n` runs past their timeout.
    pub(crate) fn overdue(&self, now: Time, n: usize) -> Vec<(Time, JobId, Delivery)> {
        let running = self.lock();
        running.timeouts.iter().take_while(|(at, ..)| *at <= now).take(n).copied().collect()
    }

    /// Removes the timeouts of these runs; returns the next timeout.
    pub(crate) fn remove_timeouts(&self, overdue: &[(Time, JobId, Delivery)]) -> Time {
        let mut running = self.lock();
        for end in overdue {
            running.timeouts.remove(end);
        }
        running.timeouts.first().map_or(NEVER, |(at, ..)| *at)
    }
}
