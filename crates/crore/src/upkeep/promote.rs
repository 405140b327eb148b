use crore_core::Time;

use crate::engine::Inner;
use crate::error::Error;
use crate::timers::NEVER;

/// How many become ready at a time, so that a million that are due together stall nobody.
const AT_ONCE: usize = 1000;

impl Inner {
    /// Makes due jobs ready; gives when the next one is due.
    pub(super) async fn promote_once(&self) -> Result<Time, Error> {
        let promoted = self.store.promote(AT_ONCE).await?;
        Ok(promoted.next_at.unwrap_or(NEVER))
    }
}
