//! Makes due jobs ready, and plans for jobs that are due later.

use std::sync::atomic::Ordering;

use crore_core::{NewJob, State, Time};
use crore_store::views::ListQuery;

use super::Duty;
use crate::bug::planted;
use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// Jobs per promotion, so that a million jobs due at once do not stall other calls.
const AT_ONCE: usize = 1000;

/// The earliest due time and deadline (or end of a wait for an event) of new jobs, and whether one of the delayed jobs also waits for others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueTimes {
    first: Time,
    is_waiting: bool,
    first_deadline: Time,
}

impl DueTimes {
    pub(crate) fn of(jobs: &[NewJob], now: Time) -> Self {
        let mut dues = Self { first: NEVER, is_waiting: false, first_deadline: NEVER };
        for job in jobs {
            let due = job.due.resolve(now, now);
            if due > now {
                dues.first = dues.first.min(due);
                dues.is_waiting |= !job.after.is_empty() || job.spec.wait_for.is_some();
            }
            if let Some(deadline) = job.deadline {
                dues.first_deadline = dues.first_deadline.min(deadline.resolve(now));
            }
            let wait = job.spec.wait_for.as_ref().and_then(|awaited| awaited.timeout);
            if let Some(timeout) = wait {
                dues.first_deadline = dues.first_deadline.min(now.after(timeout));
            }
        }
        dues
    }
}

impl EngineInner {
    /// Makes due jobs ready; returns when the next one is due.
    pub(super) async fn promote_once(&self) -> Result<Time, Error> {
        let mut promoted = self.store.promote(AT_ONCE).await?;
        // Clear the flag before the check: a job that starts to wait after the check sets it again.
        if self.duties.may_have_dependants_due_later.swap(false, Ordering::AcqRel) {
            let guard = DropGuard::new(|| self.note_waiting_dependant());
            self.detect_waiting_dependants().await?;
            guard.disarm();
            // A job that was released while the flag was clear is only counted by another promotion.
            promoted = self.store.promote(AT_ONCE).await?;
        }
        Ok(promoted.next_at.unwrap_or(NEVER))
    }

    /// Plans promotion and expiry of new jobs.
    pub(crate) fn plan_promotion(&self, dues: DueTimes) {
        self.plan_duty(Duty::Promote, dues.first);
        if !planted!("bug-29") {
            self.plan_duty(Duty::ExpireLeases, dues.first_deadline);
        }
        if dues.is_waiting {
            self.note_waiting_dependant();
        }
    }

    /// Notes that a job waits for others and may be due later than they end. The store's next promotion time does
    /// not include it yet.
    pub(crate) fn note_waiting_dependant(&self) {
        self.duties.may_have_dependants_due_later.store(true, Ordering::Release);
    }

    /// A job or group has ended that others may have waited for: those may be due later.
    pub(crate) fn plan_promotion_of_released(&self) {
        if self.duties.may_have_dependants_due_later.load(Ordering::Acquire) {
            self.plan_duty(Duty::Promote, self.now());
        }
    }

    /// Notes whether there are waiting jobs, which may be due later.
    pub(super) async fn detect_waiting_dependants(&self) -> Result<(), Error> {
        let (queue, kind) = (None, None);
        let query = ListQuery { state: State::Waiting, queue, kind, key: None, after: None, n: 1 };
        if !self.store.list(query).await?.jobs.is_empty() {
            self.note_waiting_dependant();
        }
        Ok(())
    }
}
