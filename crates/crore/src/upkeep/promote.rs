use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::{NewJob, Span, State, Time};
use crore_store::views::Query;

use super::Duty;
use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// How many become ready at a time, so that a million that are due together stall nobody.
const AT_ONCE: usize = 1000;

/// When jobs are due that still wait for others: a store knows it of scheduled ones only, and they
/// become that when nobody looks.
#[derive(Debug, Default)]
pub(crate) struct Later(Mutex<BTreeSet<Time>>);

impl Later {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Time>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what is over, and gives what comes next.
    fn after(&self, now: Time) -> Time {
        let mut later = self.lock();
        *later = later.split_off(&now.after(Span::from_millis(1)));
        later.first().copied().unwrap_or(NEVER)
    }
}

/// When those of some jobs are due that are not due now, and whether each waits for others.
pub(crate) fn due_later(jobs: &[NewJob], now: Time) -> Vec<(Time, bool)> {
    let due = jobs.iter().map(|job| (job.due.resolve(now, now), !job.after.is_empty()));
    due.filter(|(due, _)| *due > now).collect()
}

impl Inner {
    /// Makes due jobs ready; gives when the next one is due.
    pub(super) async fn promote_once(&self) -> Result<Time, Error> {
        let promoted = self.store.promote(AT_ONCE).await?;
        let next_at = promoted.next_at.unwrap_or(NEVER);
        Ok(next_at.min(self.duties.later.after(promoted.now)))
    }

    /// Jobs that are due later are stored.
    pub(crate) fn want_promote(&self, later: Vec<(Time, bool)>) {
        later.into_iter().for_each(|(due, waits)| self.want_promote_at(due, waits));
    }

    fn want_promote_at(&self, due: Time, waits: bool) {
        if waits {
            self.duties.later.lock().insert(due);
        }
        self.want(Duty::Promote, due);
    }

    /// After a restart, all jobs that wait for others are asked when they are due.
    pub(super) async fn learn_when_due(&self) -> Result<(), Error> {
        let (mut after, now) = (None, self.now());
        loop {
            let state = State::Waiting;
            let query = Query { state, queue: None, kind: None, after, n: AT_ONCE };
            let page = self.store.list(query).await?;
            let due = page.jobs.iter().map(|job| job.live.due).filter(|due| *due > now);
            due.for_each(|due| self.want_promote_at(due, true));
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
