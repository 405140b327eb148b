//! Unconfirmed changes: jobs that may have been changed although the response of the store was lost.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::{Job, JobId, Name, Time};
use crore_store::jobs::JobSelector;

use super::Duty;
use crate::bug::planted;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::events::{EngineEvent, EventType};
use crate::results::EndedJob;
use crate::timers::NEVER;

/// Maximum unconfirmed jobs. Further ones are not tracked: a store that loses so many responses is failing anyway.
const MAX_UNCONFIRMED: usize = 100_000;

/// Jobs per run of the duty.
const AT_ONCE: usize = 1000;

type QueueAndKind = (Name, Name);

/// Jobs with an unconfirmed change that a caller or listener waits for, with their queues and kinds.
#[derive(Debug, Default)]
pub(crate) struct UnconfirmedJobs(Mutex<BTreeMap<JobId, QueueAndKind>>);

impl UnconfirmedJobs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, QueueAndKind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_batch(&self) -> Vec<(JobId, QueueAndKind)> {
        self.lock().iter().take(AT_ONCE).map(|(id, names)| (*id, names.clone())).collect()
    }
}

impl EngineInner {
    /// Records an unconfirmed change of these jobs. Upkeep reads them at this instant, and publishes their current
    /// state.
    pub(crate) fn mark_unconfirmed<'a>(&self, jobs: impl Iterator<Item = &'a Job>, at: Time) {
        let mut ids = Vec::new();
        for job in jobs {
            ids.push(job.id);
            self.running.forget(job.id);
            let mut unconfirmed = self.duties.unconfirmed.lock();
            let is_awaited = self.events.has_listeners() || self.end_waiters.is_waited_for(job.id);
            if is_awaited && unconfirmed.len() < MAX_UNCONFIRMED {
                unconfirmed.insert(job.id, (job.spec.queue.clone(), job.spec.kind.clone()));
            }
        }
        if planted!("bug-27") {
            return;
        }
        self.plan_limit_key_update(ids.into_iter(), at);
        // The job may wait for others, and be due later than they end.
        self.note_waiting_dependant();
        for duty in [Duty::Unconfirmed, Duty::Promote, Duty::ExpireLeases] {
            self.plan_duty(duty, at);
        }
        self.plan_prune_soon(at);
    }

    /// Reads unconfirmed jobs and publishes their state.
    pub(super) async fn unconfirmed_once(&self) -> Result<Time, Error> {
        let unconfirmed = self.duties.unconfirmed.next_batch();
        let ids: Vec<JobId> = unconfirmed.iter().map(|(id, _)| *id).collect();
        let jobs = if ids.is_empty() {
            Vec::new()
        } else {
            self.store.get(JobSelector::all(&ids)).await?
        };
        for ((id, names), job) in unconfirmed.into_iter().zip(jobs) {
            self.duties.unconfirmed.lock().remove(&id);
            self.publish_current_state(id, names, job.as_ref());
        }
        Ok(if self.duties.unconfirmed.lock().is_empty() { NEVER } else { self.now() })
    }

    fn publish_current_state(&self, id: JobId, (queue, kind): QueueAndKind, job: Option<&Job>) {
        let state = job.map(|job| job.live.state);
        if state.is_none_or(crore_core::State::has_ended) {
            self.end_waiters.notify(id, || job.map_or_else(|| EndedJob::gone(id), EndedJob::now));
        }
        let what = match job {
            None => EventType::Removed,
            Some(job) if job.live.stop => EventType::AskedToStop,
            Some(job) => EventType::Became(job.live.state),
        };
        self.events.publish(&[EngineEvent { id, queue, kind, what, at: self.now() }]);
    }
}
