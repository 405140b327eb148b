//! Ends runs past their timeout.

use crore_core::machine::{JobEvent, decide};
use crore_core::{Delivery, JobId, Time};
use crore_store::jobs::JobSelector;

use crate::engine::EngineInner;
use crate::error::Error;

/// Runs per write.
const AT_ONCE: usize = 1000;

impl EngineInner {
    /// Ends runs past their timeout; returns the next timeout.
    pub(super) async fn overdue_once(&self) -> Result<Time, Error> {
        let overdue = self.running.overdue(self.now(), AT_ONCE);
        let timed_out = |(_, id, delivery): &(Time, JobId, Delivery)| {
            (JobSelector::Id(*id), JobEvent::TimedOut(*delivery))
        };
        self.change(overdue.iter().map(timed_out).collect(), decide).await?;
        // Only after the write: if it failed, these runs are tried again.
        Ok(self.running.remove_timeouts(&overdue))
    }
}
