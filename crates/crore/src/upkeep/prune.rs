//! Removes ended jobs and other records whose retention is over.

use crore_core::{Span, Time};

use super::Duty;
use crate::engine::EngineInner;
use crate::error::Error;

/// Records per call. Other calls wait meanwhile.
const AT_ONCE: usize = 200;

/// Delay between the end of a job and the next pruning, for queues that keep a limited number. Jobs that end in this
/// time are removed together, so a longer delay makes other calls wait longer.
const DELAY_AFTER_END: Span = Span::from_secs(1);

/// Interval of pruning when nothing ends. Records are kept for hours, so some minutes do not matter.
const IDLE_INTERVAL: Span = Span::from_secs(15 * 60);

impl EngineInner {
    /// Removes records whose retention is over; returns when to continue.
    pub(super) async fn prune_once(&self) -> Result<Time, Error> {
        let pruned = self.store.prune(AT_ONCE).await?;
        if pruned.jobs > 0 {
            // Other jobs may depend on a removed one.
            self.plan_duty(Duty::ExpireLeases, self.now());
            self.plan_promotion_of_released();
        }
        let is_more = pruned.jobs + pruned.others >= AT_ONCE;
        Ok(if is_more { self.now() } else { self.now().after(IDLE_INTERVAL) })
    }

    /// Plans pruning because a job has ended.
    pub(crate) fn plan_prune_soon(&self, now: Time) {
        self.plan_duty(Duty::Prune, now.after(DELAY_AFTER_END));
    }
}
