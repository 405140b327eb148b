use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::{Job, JobId, Name, Time};
use crore_store::jobs::Which;

use super::Duty;
use crate::bug::planted;
use crate::engine::Inner;
use crate::error::Error;
use crate::events::{Event, Happened};
use crate::results::Ended;
use crate::timers::NEVER;

/// More than this are not looked at again: a store that has so many doubts has given up.
const MOST: usize = 100_000;

/// How many are looked at in one go.
const AT_ONCE: usize = 1000;

type Names = (Name, Name);

/// Jobs that may have been changed without anybody having heard of it, with their queues and kinds.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<BTreeMap<JobId, Names>>);

impl Doubts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, Names>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn some(&self) -> Vec<(JobId, Names)> {
        self.lock().iter().take(AT_ONCE).map(|(id, names)| (*id, names.clone())).collect()
    }
}

impl Inner {
    /// These jobs may have been changed: the store is asked at an instant, and whoever needs to know is
    /// told what it says.
    pub(crate) fn in_doubt<'a>(&self, jobs: impl Iterator<Item = &'a Job>, at: Time) {
        let mut ids = Vec::new();
        for job in jobs {
            ids.push(job.id);
            self.running.forget(job.id);
            let mut doubts = self.duties.doubts.lock();
            let is_asked = self.events.is_heard() || self.end_waiters.is_waited_for(job.id);
            if is_asked && doubts.len() < MOST {
                doubts.insert(job.id, (job.spec.queue.clone(), job.spec.kind.clone()));
            }
        }
        if planted!("bug-27") {
            return;
        }
        self.relimit_at(ids.into_iter(), at);
        // It may wait for others, and be due later than they end.
        self.expect_held();
        for duty in [Duty::Doubts, Duty::Promote, Duty::Rescue] {
            self.want(duty, at);
        }
        self.want_prune_soon(at);
    }

    /// Looks at jobs that may have been changed, and tells what they have become.
    pub(super) async fn doubts_once(&self) -> Result<Time, Error> {
        let doubts = self.duties.doubts.some();
        let ids: Vec<JobId> = doubts.iter().map(|(id, _)| *id).collect();
        let jobs =
            if ids.is_empty() { Vec::new() } else { self.store.get(Which::all(&ids)).await? };
        for ((id, names), job) in doubts.into_iter().zip(jobs) {
            self.duties.doubts.lock().remove(&id);
            self.tell_what_became(id, names, job.as_ref());
        }
        Ok(if self.duties.doubts.lock().is_empty() { NEVER } else { self.now() })
    }

    fn tell_what_became(&self, id: JobId, (queue, kind): Names, job: Option<&Job>) {
        let state = job.map(|job| job.live.state);
        if state.is_none_or(crore_core::State::has_ended) {
            self.end_waiters.tell(id, || job.map_or_else(|| Ended::gone(id), Ended::now));
        }
        let what = match job {
            None => Happened::Removed,
            Some(job) if job.live.stop => Happened::AskedToStop,
            Some(job) => Happened::Became(job.live.state),
        };
        self.events.tell(&[Event { id, queue, kind, what, at: self.now() }]);
    }
}
