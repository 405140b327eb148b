use std::sync::{Arc, PoisonError};

use crore_core::machine::{Edit, Event, decide};
use crore_core::{Job, State, Time};
use crore_store::jobs::Which;
use crore_store::views::{Cursor, Query};

use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// How many jobs are looked at in one go.
const AT_ONCE: usize = 1000;

/// Whose limits may have changed.
const STATES: [State; 3] = [State::Ready, State::Scheduled, State::Waiting];

/// How far the waiting jobs were looked through.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sweep {
    state: usize,
    after: Option<Cursor>,
}

impl Inner {
    /// Begins to look through the waiting jobs, from the start.
    pub(crate) fn sweep_anew(&self) {
        *self.duties.sweep.lock().unwrap_or_else(PoisonError::into_inner) = Sweep::default();
    }

    /// Brings the next waiting jobs under the limits as they are now; gives when to go on.
    pub(super) async fn lanes_once(&self) -> Result<Time, Error> {
        let sweep = *self.duties.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = STATES.get(sweep.state).copied() else {
            self.sweep_anew();
            return Ok(NEVER);
        };
        let query = Query { state, queue: None, kind: None, after: sweep.after, n: AT_ONCE };
        let page = self.store.list(query).await?;
        let moved = page.jobs.iter().filter_map(|job| self.relimited(job));
        self.change(moved.collect(), decide).await?;
        let next = match page.next {
            Some(cursor) => Sweep { after: Some(cursor), ..sweep },
            None => Sweep { state: sweep.state + 1, after: None },
        };
        *self.duties.sweep.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(self.now())
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
