use std::sync::atomic::{AtomicBool, Ordering};

use crore_core::{NewJob, State, Time};

use super::Duty;
use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// Whether there may be jobs that wait for others. One that is due later than the last of those has
/// ended becomes scheduled by itself, and somebody has to ask when. Until the first one comes, no end
/// of a job is worth a look.
#[derive(Debug, Default)]
pub(crate) struct Waits(AtomicBool);

/// How many become ready at a time, so that a million that are due together stall nobody.
const AT_ONCE: usize = 1000;

impl Inner {
    /// These jobs are about to be stored; gives when the first of those that are due later is.
    pub(crate) fn first_due<'a>(&self, jobs: impl IntoIterator<Item = &'a NewJob>) -> Time {
        let now = self.now();
        let mut first = NEVER;
        for job in jobs {
            if !job.after.is_empty() {
                self.duties.waits.0.store(true, Ordering::Relaxed);
            }
            let due = job.due.resolve(now, now);
            if due > now {
                first = first.min(due);
            }
        }
        first
    }

    /// Something ended that others may have waited for.
    pub(crate) fn want_released(&self, now: Time) {
        if self.duties.waits.0.load(Ordering::Relaxed) {
            self.want(Duty::Promote, now);
        }
    }

    /// Looks whether jobs wait for others.
    pub(super) async fn look_for_waits(&self) -> Result<(), Error> {
        let counts = self.store.counts(None).await?;
        let any = counts.iter().any(|count| count.state == State::Waiting);
        self.duties.waits.0.store(any, Ordering::Relaxed);
        Ok(())
    }

    /// Makes due jobs ready; gives when the next one is due.
    pub(super) async fn promote_once(&self) -> Result<Time, Error> {
        let promoted = self.store.promote(AT_ONCE).await?;
        Ok(promoted.next_at.unwrap_or(NEVER))
    }
}
