//! Updates the keys of waiting jobs after limits or settings of queues have changed: limit keys and fair keys, which
//! decide their lanes, and index keys.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use crore_core::machine::{JobEdit, JobEvent, decide};
use crore_core::{Job, JobId, State, Time};
use crore_store::jobs::JobSelector;
use crore_store::views::{Cursor, ListQuery};

use super::Duty;
use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// Jobs per run of the duty.
const AT_ONCE: usize = 1000;

/// States of jobs to update, in the order in which jobs pass through them: a job that moves on during the sweep is
/// met later.
const STATES: [State; 3] = [State::Waiting, State::Scheduled, State::Ready];

/// Jobs whose limit keys may be outdated.
#[derive(Debug, Default)]
pub(crate) struct LimitSweeps {
    /// The sweep through all waiting jobs, if one is in progress.
    sweep: Option<LimitSweep>,
    /// Number of sweeps started.
    last_number: u64,
    /// Single jobs that were stored with outdated limit keys.
    outdated: BTreeSet<JobId>,
}

impl LimitSweeps {
    fn next_at(&self, now: Time) -> Time {
        if self.sweep.is_some() || !self.outdated.is_empty() { now } else { NEVER }
    }
}

/// Position of a sweep.
#[derive(Debug, Default, Clone, Copy)]
struct LimitSweep {
    number: u64,
    state: usize,
    after: Option<Cursor>,
}

impl EngineInner {
    fn sweeps(&self) -> MutexGuard<'_, LimitSweeps> {
        self.duties.sweeps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new sweep through all waiting jobs.
    pub(crate) fn restart_limit_sweep(&self) {
        {
            let mut sweeps = self.sweeps();
            sweeps.last_number += 1;
            sweeps.sweep = Some(LimitSweep { number: sweeps.last_number, ..LimitSweep::default() });
        }
        self.plan_duty(Duty::UpdateLimitKeys, self.now());
    }

    /// Updates these jobs, whose limit keys may be outdated.
    pub(crate) fn update_limit_keys(&self, ids: impl Iterator<Item = JobId>) {
        self.plan_limit_key_update(ids, self.now());
    }

    /// The same, from an instant on.
    pub(crate) fn plan_limit_key_update(&self, ids: impl Iterator<Item = JobId>, at: Time) {
        self.sweeps().outdated.extend(ids);
        self.plan_duty(Duty::UpdateLimitKeys, at);
    }

    /// Updates the next jobs; returns when to continue.
    pub(super) async fn update_limit_keys_once(&self) -> Result<Time, Error> {
        let (sweep, outdated) = {
            let mut sweeps = self.sweeps();
            let some = std::iter::from_fn(|| sweeps.outdated.pop_first()).take(AT_ONCE);
            let some: Vec<JobId> = some.collect();
            (sweeps.sweep, some)
        };
        if !outdated.is_empty() {
            let guard = DropGuard::new(|| self.sweeps().outdated.extend(&outdated));
            self.update_limit_keys_now(&outdated).await?;
            guard.disarm();
        }
        let Some(sweep) = sweep else { return Ok(self.sweeps().next_at(self.now())) };
        let next = self.sweep_page(sweep).await?;
        let mut sweeps = self.sweeps();
        // A sweep that was started meanwhile takes precedence.
        if sweeps.sweep.is_some_and(|now| now.number == sweep.number) {
            sweeps.sweep = next;
        }
        Ok(sweeps.next_at(self.now()))
    }

    async fn update_limit_keys_now(&self, ids: &[JobId]) -> Result<(), Error> {
        let jobs = self.store.get(JobSelector::all(ids)).await?;
        let moved = jobs.iter().flatten().filter_map(|job| self.key_event(job)).collect();
        self.change(moved, decide).await.map(drop)
    }

    /// Updates one page of a sweep; returns the next position, if there is one.
    async fn sweep_page(&self, sweep: LimitSweep) -> Result<Option<LimitSweep>, Error> {
        let Some(state) = STATES.get(sweep.state).copied() else { return Ok(None) };
        if sweep.state == 0 && sweep.after.is_none() {
            self.load_limits().await?;
        }
        let query =
            ListQuery { state, queue: None, kind: None, key: None, after: sweep.after, n: AT_ONCE };
        let page = self.store.list(query).await?;
        let moved = page.jobs.iter().filter_map(|job| self.key_event(job));
        self.change(moved.collect(), decide).await?;
        Ok(Some(match page.next {
            Some(cursor) => LimitSweep { after: Some(cursor), ..sweep },
            None => LimitSweep { state: sweep.state + 1, after: None, ..sweep },
        }))
    }

    /// The event that updates the keys of a job; `None`: they are current. Of a job that runs or has ended, only the index
    /// keys matter.
    pub(super) fn key_event(&self, job: &Job) -> Option<(JobSelector, JobEvent)> {
        if job.live.state == State::Running || job.live.state.has_ended() {
            let keys = self.limits.new_index_keys(&job.spec)?;
            return Some((JobSelector::Id(job.id), JobEvent::Index(keys)));
        }
        if self.limits.has_keys(&job.spec) {
            return None;
        }
        let mut spec = (*job.spec).clone();
        self.limits.set_keys(&mut spec);
        let edit = JobEdit { spec: Some(Arc::new(spec)), due: None };
        Some((JobSelector::Id(job.id), JobEvent::Edit(edit)))
    }
}
