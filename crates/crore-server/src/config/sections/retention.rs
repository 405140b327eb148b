use crore_core::Span;
use crore_store::registry::QueueSettings;

use crore_core::settings::section;

section! {
    /// How long jobs are kept when they have ended, in every queue without settings of its own.
    pub(crate) struct Retention = "retention" {
        /// How long done and cancelled jobs are kept.
        done_for: Span = "24h",
        /// How many done and cancelled jobs of a queue are kept, each.
        max_done: u64 = "100_000",
        /// How long dead jobs are kept.
        dead_for: Span = "180d",
        /// How many dead jobs of a queue are kept; any number, unless chosen.
        max_dead: Option<u64> = none,
    }
}

impl Retention {
    /// What holds for a queue that nobody has set anything for.
    pub(crate) fn settings(&self) -> QueueSettings {
        QueueSettings {
            paused: false,
            keep_done: self.done_for,
            max_done: self.max_done,
            keep_dead: self.dead_for,
            max_dead: self.max_dead.unwrap_or(u64::MAX),
        }
    }
}
