//! Options of the embedded store.

use crore_core::settings::{one_of, section};
use crore_core::{Size, Span};

use crate::registry::QueueSettings;

section! {
    /// Options of the embedded store.
    pub struct Options: Eq = "store" {
        //! The defaults suit nearly all workloads. Existing files keep their size.

        /// When a change is acknowledged. `always`: after it is synced to disk, so that it survives a power
        /// failure. `interval`: after it is written; a power failure can revert the changes of the last
        /// `sync-every`. `none`: after it is written; it is never synced explicitly, the operating system
        /// flushes it.
        durability: DurabilityMode = "always",
        /// Interval between syncs, for `durability = "interval"`.
        sync_every: Span = "1s",
        /// Size of a segment file of the write-ahead log.
        segment_bytes: u64 as segment: Size = "64MiB",
        /// Maximum size of the write buffer; callers wait while it is full.
        buffer_bytes: u64 as buffer: Size = "8MiB",
        /// Settings of queues without settings of their own.
        queues: QueueSettings => QueueSettings::default(),
    }
}

impl Options {
    /// Minimum segment size.
    pub const MIN_SEGMENT: u64 = 4096;
}

one_of! {
    /// When a change is acknowledged, and what a crash may revert.
    pub enum DurabilityMode {
        /// After it is synced: no crash or power failure reverts it.
        Always = "always",
        /// After it is written to the operating system; the store syncs every
        /// [`Options::sync_every`]. A power failure reverts changes acknowledged since the last
        /// sync; a crash of the process reverts none.
        Interval = "interval",
        /// After it is written to the operating system, which flushes it at its own pace.
        None = "none",
    }
}
