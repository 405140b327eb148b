//! How an embedded store is opened.

use crore_core::settings::{one_of, section};
use crore_core::{Size, Span};

use crate::registry::QueueSettings;

section! {
    /// How an embedded store is opened.
    pub struct Options: Copy, Eq = "store" {
        //! The defaults are right for nearly everybody. Files that are there already keep their size.

        /// When a change is answered. `always`: when it is on the disk; no crash and no power cut takes it
        /// back. `interval`: at once; a power cut takes back what was answered in the last `sync-every`.
        /// `none`: at once; the operating system puts it on the disk when it likes.
        durability: Durability = "always",
        /// How often everything is put on the disk, with `durability = "interval"`.
        sync_every: Span = "1s",
        /// The size of a file of the log.
        segment_bytes: u64 as segment: Size = "64MiB",
        /// How much may wait for the disk; callers wait while there is more.
        buffer_bytes: u64 as buffer: Size = "8MiB",
        /// What holds for a queue without settings of its own.
        queues: QueueSettings => QueueSettings::default(),
    }
}

impl Options {
    /// The smallest segment.
    pub const MIN_SEGMENT: u64 = 4096;
}

one_of! {
    /// When a change that a caller waits for is answered, and what a crash may take back.
    pub enum Durability {
        /// After it is on the disk: no crash and no power cut takes it back.
        Always = "always",
        /// After it is with the operating system, which is told to put it on the disk every
        /// [`Options::sync_every`]. A power cut takes back what was answered since; a crash of the process nothing.
        Interval = "interval",
        /// After it is with the operating system, which puts it on the disk when it likes.
        None = "none",
    }
}
