use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use crore_core::machine::{Edit, Event, decide};
use crore_core::{Job, JobId, State, Time};
use crore_store::jobs::Which;
use crore_store::views::{Cursor, Query};

use super::Duty;
use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// How many jobs are looked at in one go.
const AT_ONCE: usize = 1000;

/// Whose limits may have changed, in the order in which jobs go through these states: one that moves
/// on meanwhile is met later.
const STATES: [State; 3] = [State::Waiting, State::Scheduled, State::Ready];

/// Jobs that may have to be brought under other limits.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// The sweep through all that wait, if there is one to do.
    sweep: Option<Sweep>,
    /// How many sweeps were begun.
    last: u64,
    /// Jobs that came to wait with limits that are not those of now.
    strays: BTreeSet<JobId>,
}

impl Sweeps {
    fn next_at(&self, now: Time) -> Time {
        if self.sweep.is_some() || !self.strays.is_empty() { now } else { NEVER }
    }
}

/// How far the waiting jobs were looked through.
#[derive(Debug, Default, Clone, Copy)]
struct Sweep {
    no: u64,
    state: usize,
    after: Option<Cursor>,
}

impl Inner {
    fn sweeps(&self) -> MutexGuard<'_, Sweeps> {
        self.duties.sweeps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks through all waiting jobs, from the start.
    pub(crate) fn sweep_anew(&self) {
        {
            let mut sweeps = self.sweeps();
            sweeps.last += 1;
            sweeps.sweep = Some(Sweep { no: sweeps.last, ..Sweep::default() });
        }
        self.want(Duty::Lanes, self.now());
    }

    /// These jobs may have come to wait with limits that are not those of now.
    pub(crate) fn relimit(&self, ids: impl Iterator<Item = JobId>) {
        self.relimit_at(ids, self.now());
    }

    /// The same of jobs that may only be looked at from an instant on.
    pub(crate) fn relimit_at(&self, ids: impl Iterator<Item = JobId>, at: Time) {
        self.sweeps().strays.extend(ids);
        self.want(Duty::Lanes, at);
    }

    /// Brings the next waiting jobs under the limits as they are now; gives when to go on.
    pub(super) async fn lanes_once(&self) -> Result<Time, Error> {
        let (sweep, strays) = {
            let mut sweeps = self.sweeps();
            let some = std::iter::from_fn(|| sweeps.strays.pop_first()).take(AT_ONCE);
            let some: Vec<JobId> = some.collect();
            (sweeps.sweep, some)
        };
        if !strays.is_empty() {
            let undone = Doubt::new(|| self.sweeps().strays.extend(&strays));
            self.relimit_now(&strays).await?;
            undone.over();
        }
        let Some(sweep) = sweep else { return Ok(self.sweeps().next_at(self.now())) };
        let next = self.sweep_on(sweep).await?;
        let mut sweeps = self.sweeps();
        // If another was begun meanwhile, that one counts.
        if sweeps.sweep.is_some_and(|now| now.no == sweep.no) {
            sweeps.sweep = next;
        }
        Ok(sweeps.next_at(self.now()))
    }

    async fn relimit_now(&self, ids: &[JobId]) -> Result<(), Error> {
        let jobs = self.store.get(Which::all(ids)).await?;
        let moved = jobs.iter().flatten().filter_map(|job| self.relimited(job)).collect();
        self.change(moved, decide).await.map(drop)
    }

    /// One step of a sweep; gives the next, if there is one.
    async fn sweep_on(&self, sweep: Sweep) -> Result<Option<Sweep>, Error> {
        let Some(state) = STATES.get(sweep.state).copied() else { return Ok(None) };
        if sweep.state == 0 && sweep.after.is_none() {
            self.load_limits().await?;
        }
        let query = Query { state, queue: None, kind: None, after: sweep.after, n: AT_ONCE };
        let page = self.store.list(query).await?;
        let moved = page.jobs.iter().filter_map(|job| self.relimited(job));
        self.change(moved.collect(), decide).await?;
        Ok(Some(match page.next {
            Some(cursor) => Sweep { after: Some(cursor), ..sweep },
            None => Sweep { state: sweep.state + 1, after: None, ..sweep },
        }))
    }

    /// The job under other limits, if they are others.
    fn relimited(&self, job: &Job) -> Option<(Which, Event)> {
        let limits = self.limits.keys(&job.spec);
        if limits == job.spec.limits {
            return None;
        }
        let spec = crore_core::Spec { limits, ..(*job.spec).clone() };
        let edit = Edit { spec: Some(Arc::new(spec)), due: None };
        Some((Which::Id(job.id), Event::Edit(edit)))
    }
}
