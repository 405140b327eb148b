//! How an embedded store is opened.

use crore_core::Span;

use crate::registry::QueueSettings;

/// What can be chosen about an embedded store. The defaults are right for nearly everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// When a change that a caller waits for is answered.
    pub durability: Durability,
    /// The size of a file of the log, in bytes; at least [`Options::MIN_SEGMENT`]. Files that are
    /// there already keep theirs.
    pub segment_bytes: u64,
    /// How much may wait for the disk, in bytes; callers wait while there is more.
    pub buffer_bytes: u64,
    /// What holds for a queue without settings of its own.
    pub queues: QueueSettings,
}

impl Options {
    /// The smallest segment.
    pub const MIN_SEGMENT: u64 = 4096;
    /// What is chosen if nobody chooses.
    pub const DEFAULT: Self = Self {
        durability: Durability::Always,
        segment_bytes: 64 << 20,
        buffer_bytes: 8 << 20,
        queues: QueueSettings::DEFAULT,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// When a change that a caller waits for is answered, and what a crash may take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After it is on the disk: no crash and no power cut takes it back.
    #[default]
    Always,
    /// After it is with the operating system, which is told to put it on the disk so often. A power
    /// cut takes back what was answered since; a crash of the process nothing.
    Interval(Span),
    /// After it is with the operating system, which puts it on the disk when it likes.
    None,
}
