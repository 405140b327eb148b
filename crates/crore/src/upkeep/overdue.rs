use crore_core::machine::{Event, decide};
use crore_core::{Delivery, JobId, Time};
use crore_store::jobs::Which;

use crate::engine::Inner;
use crate::error::Error;

/// How many are ended in one go.
const AT_ONCE: usize = 1000;

impl Inner {
    /// Ends runs that take longer than their job allows; gives when the next one does.
    pub(super) async fn overdue_once(&self) -> Result<Time, Error> {
        let overdue = self.running.overdue(self.now(), AT_ONCE);
        let timed_out = |(_, id, delivery): &(Time, JobId, Delivery)| {
            (Which::Id(*id), Event::TimedOut(*delivery))
        };
        self.change(overdue.iter().map(timed_out).collect(), decide).await?;
        // Only now: what the store could not do is to be tried again.
        Ok(self.running.settled(&overdue))
    }
}
