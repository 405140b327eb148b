use crore_core::Time;
use crore_core::machine::{Event, decide};
use crore_store::jobs::Which;

use crate::engine::Inner;
use crate::error::Error;

/// How many are ended in one go.
const AT_ONCE: usize = 1000;

impl Inner {
    /// Ends runs that take longer than their job allows; gives when the next one does.
    pub(super) async fn overdue_once(&self) -> Result<Time, Error> {
        let (overdue, next_at) = self.running.overdue(self.now(), AT_ONCE);
        let is_all = overdue.len() < AT_ONCE;
        let asked =
            overdue.into_iter().map(|(id, delivery)| (Which::Id(id), Event::TimedOut(delivery)));
        self.change(asked.collect(), decide).await?;
        Ok(if is_all { next_at } else { self.now() })
    }
}
