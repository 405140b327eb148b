//! The sizes and counts that a caller may not pass: one table for every door.

use crate::settings::section;
use crate::time::Span;
use crate::words::Size;

section! {
    /// What callers may not pass. What is larger is refused, and says so.
    pub struct Caps: Eq = "caps" {
        //! A server may raise the payload cap up to [`Caps::MAX_PAYLOAD`].

        /// A payload; at most 16MiB.
        payload_bytes: usize as payload: Size = "1MiB",
        /// A result, or the detail of an error.
        result_bytes: usize as result: Size = "1MiB",
        /// An error message or a log line; a longer one is cut.
        text_bytes: usize as text: Size = "64KiB",
        /// Jobs in one batch.
        batch_jobs: usize = "1000",
        /// All payloads of one batch.
        batch_bytes: usize as batch_bytes: Size = "8MiB",
        /// Jobs in one fetch.
        fetch: usize = "1000",
        /// All payloads of one fetch: when they are reached, the other jobs stay where they are.
        fetch_bytes: usize as fetch_bytes: Size = "16MiB",
        /// Rows in one page of a list.
        page: usize = "1000",
        /// Labels of a job.
        labels: usize = "32",
        /// Jobs and groups that one job may wait for.
        dependencies: usize = "1000",
        /// The shortest lease.
        min_lease: Span = "1s",
        /// The longest lease.
        max_lease: Span = "24h",
        /// The longest timeout of a run.
        max_timeout: Span = "366d",
        /// How far ahead a job may be due.
        max_ahead: Span = "3653d",
        /// How long a result, or the window of a unique key, may be kept.
        max_retention: Span = "90d",
        /// Levels of nesting in a payload.
        depth: usize => 64,
        /// Bytes of a unique key or a client id.
        key_bytes: usize => 256,
        /// Bytes of a trace context.
        trace_bytes: usize => 1024,
        /// Bytes of a label's name and of its value, each.
        label_bytes: usize => 256,
    }
}

impl Caps {
    /// The largest payload cap that a server may be given.
    pub const MAX_PAYLOAD: usize = 16 << 20;
}
