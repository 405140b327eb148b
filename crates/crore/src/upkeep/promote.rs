use std::sync::atomic::Ordering;

use crore_core::{NewJob, State, Time};
use crore_store::views::Query;

use super::Duty;
use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// How many become ready at a time, so that a million that are due together stall nobody.
const AT_ONCE: usize = 1000;

/// When the first of some new jobs is due later, and whether one of those waits for others before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dues {
    first: Time,
    is_held: bool,
}

impl Dues {
    pub(crate) fn of(jobs: &[NewJob], now: Time) -> Self {
        let mut dues = Self { first: NEVER, is_held: false };
        for job in jobs {
            let due = job.due.resolve(now, now);
            if due > now {
                dues.first = dues.first.min(due);
                dues.is_held |= !job.after.is_empty();
            }
        }
        dues
    }
}

impl Inner {
    /// Makes due jobs ready; gives when the next one is due.
    pub(super) async fn promote_once(&self) -> Result<Time, Error> {
        let mut promoted = self.store.promote(AT_ONCE).await?;
        // Put down before the look: who comes to wait after it puts the mark up again.
        if self.duties.are_dues_held.swap(false, Ordering::AcqRel) {
            let unseen = Doubt::new(|| self.expect_held());
            self.look_for_held().await?;
            unseen.over();
            // A job that was released before the mark was up again is counted only now.
            promoted = self.store.promote(AT_ONCE).await?;
        }
        Ok(promoted.next_at.unwrap_or(NEVER))
    }

    /// Such jobs were stored.
    pub(crate) fn expect(&self, dues: Dues) {
        self.want(Duty::Promote, dues.first);
        if dues.is_held {
            self.expect_held();
        }
    }

    /// A job waits for others, and is due later than they may end. The store's next promotion does not
    /// count it yet.
    pub(crate) fn expect_held(&self) {
        self.duties.are_dues_held.store(true, Ordering::Release);
    }

    /// Something has ended that others may have waited for, and some of them may be due later.
    pub(crate) fn released(&self) {
        if self.duties.are_dues_held.load(Ordering::Acquire) {
            self.want(Duty::Promote, self.now());
        }
    }

    /// Whatever waits may be due later.
    pub(super) async fn look_for_held(&self) -> Result<(), Error> {
        let (queue, kind) = (None, None);
        let query = Query { state: State::Waiting, queue, kind, after: None, n: 1 };
        if !self.store.list(query).await?.jobs.is_empty() {
            self.expect_held();
        }
        Ok(())
    }
}
