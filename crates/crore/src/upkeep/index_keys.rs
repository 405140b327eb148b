//! Updates the index keys of all jobs of a queue after its indexed fields have changed.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use crore_core::machine::decide;
use crore_core::{Name, Span, State, Time};
use crore_store::views::{Cursor, ListQuery};

use super::Duty;
use crate::bug::planted;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// Jobs per run of the duty.
const AT_ONCE: usize = 1000;

/// Time between a change of the fields and the sweep, in which writes end that began with the old fields. The sweep would
/// not meet jobs that are stored behind it.
const SETTLE_TIME: Span = Span::from_secs(1);

/// Queues whose jobs may have outdated index keys.
#[derive(Debug, Default)]
pub(crate) struct IndexSweeps {
    sweeps: BTreeMap<Name, IndexSweep>,
    /// Number of sweeps started.
    last_number: u64,
}

/// Position of a sweep. States are visited in the order in which jobs pass through them; a job that goes back is updated
/// when it does.
#[derive(Debug, Clone, Copy)]
struct IndexSweep {
    number: u64,
    begins_at: Time,
    state: usize,
    after: Option<Cursor>,
}

impl EngineInner {
    fn index_sweeps(&self) -> MutexGuard<'_, IndexSweeps> {
        self.duties.index_sweeps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new sweep through all jobs of a queue.
    pub(crate) fn start_index_sweep(&self, queue: &Name) {
        let begins_at = self.now().after(SETTLE_TIME);
        {
            let mut all = self.index_sweeps();
            all.last_number += 1;
            let number = all.last_number;
            let sweep = IndexSweep { number, begins_at, state: 0, after: None };
            all.sweeps.insert(queue.clone(), sweep);
        }
        self.plan_duty(Duty::UpdateIndexKeys, begins_at);
    }

    /// Continues the sweeps that had not ended when the store was closed.
    pub(super) fn resume_index_sweeps(&self) {
        let rules = self.limits.all();
        let open = rules.indexes().iter().filter(|(_, index)| !index.is_complete());
        open.for_each(|(queue, _)| self.start_index_sweep(queue));
    }

    /// Updates the next jobs; returns when to continue.
    pub(super) async fn update_index_keys_once(&self) -> Result<Time, Error> {
        let now = self.now();
        let due = |(queue, sweep): (&Name, &IndexSweep)| {
            (sweep.begins_at <= now).then(|| (queue.clone(), *sweep))
        };
        let next = self.index_sweeps().sweeps.iter().find_map(due);
        if let Some((queue, sweep)) = next {
            let next = self.sweep_index_page(&queue, sweep).await?;
            let mut all = self.index_sweeps();
            // A sweep that was started meanwhile takes precedence.
            if all.sweeps.get(&queue).is_some_and(|now| now.number == sweep.number) {
                match next {
                    Some(next) => all.sweeps.insert(queue, next),
                    None => all.sweeps.remove(&queue),
                };
            }
        }
        let next_at = self.index_sweeps().sweeps.values().map(|sweep| sweep.begins_at).min();
        Ok(next_at.map_or(NEVER, |at| at.max(self.now())))
    }

    /// Updates one page of a sweep; returns the next position, if there is one.
    async fn sweep_index_page(
        &self,
        queue: &Name,
        sweep: IndexSweep,
    ) -> Result<Option<IndexSweep>, Error> {
        if sweep.state == 0 && sweep.after.is_none() {
            self.load_limits().await?;
        }
        let states: &[State] = if planted!("bug-32") { &State::ALL[..4] } else { &State::ALL };
        let Some(state) = states.get(sweep.state).copied() else {
            if let Some(index) = self.limits.index(queue).filter(|index| !index.is_complete()) {
                self.complete_index(queue.clone(), &index).await?;
            }
            return Ok(None);
        };
        let (queue, after) = (Some(queue.clone()), sweep.after);
        let query = ListQuery { state, queue, kind: None, key: None, after, n: AT_ONCE };
        let page = self.store.list(query).await?;
        let changed = page.jobs.iter().filter_map(|job| self.key_event(job));
        self.change(changed.collect(), decide).await?;
        Ok(Some(match page.next {
            Some(cursor) => IndexSweep { after: Some(cursor), ..sweep },
            None => IndexSweep { state: sweep.state + 1, after: None, ..sweep },
        }))
    }
}
