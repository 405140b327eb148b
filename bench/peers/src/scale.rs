//! The amount of work.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PeersScale {
    /// Number of alternating runs.
    pub(crate) runs: usize,
    /// How long a producer pushes in a run.
    pub(crate) span: Duration,
    /// Number of jobs that are pushed one at a time.
    pub(crate) pick_ups: u64,
}

impl PeersScale {
    pub(crate) const FULL: Self =
        Self { runs: 5, span: Duration::from_millis(2500), pick_ups: 500 };
    pub(crate) const QUICK: Self = Self { runs: 1, span: Duration::from_secs(1), pick_ups: 50 };
}
