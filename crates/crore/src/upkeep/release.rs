//! Releases the jobs that were waiting when an event was sent.

use crore_core::Time;

use crate::bug::planted;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::timers::NEVER;

/// Jobs per call. Other calls wait meanwhile.
const AT_ONCE: usize = 200;

impl EngineInner {
    /// Releases some jobs; returns when to continue. Each slice is a call of its own, so that other calls and duties
    /// come between.
    pub(super) async fn release_once(&self) -> Result<Time, Error> {
        let released = self.store.release(AT_ONCE).await?;
        if released.count > 0 {
            // A released job may be due later.
            self.plan_promotion_of_released();
        }
        Ok(if released.more && !planted!("bug-31") { self.now() } else { NEVER })
    }
}
