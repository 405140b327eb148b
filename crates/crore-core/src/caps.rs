//! Maximum sizes and counts of requests: one table for every door.

use crate::settings::section;
use crate::time::Span;
use crate::units::Size;

section! {
    /// Maximum sizes and counts of requests; a request above one of them is refused, unless the key says otherwise.
    pub struct Caps: Eq = "caps" {
        //! The payload cap can be raised up to [`Caps::MAX_PAYLOAD`].

        /// Maximum size of a payload; at most `16MiB`.
        payload_bytes: usize as payload: Size = "1MiB",
        /// Maximum size of a result, or of the error detail in a report.
        result_bytes: usize as result: Size = "1MiB",
        /// Maximum size of an error message or a log line; longer ones are truncated.
        text_bytes: usize as text: Size = "64KiB",
        /// Maximum number of jobs in one batch.
        batch_jobs: usize = "1000",
        /// Maximum total size of the payloads in one batch.
        batch_bytes: usize as batch_bytes: Size = "8MiB",
        /// Maximum number of jobs returned by one fetch.
        fetch: usize = "1000",
        /// Maximum total size of the payloads returned by one fetch; further jobs stay in the queue.
        fetch_bytes: usize as fetch_bytes: Size = "16MiB",
        /// Maximum page size of a list.
        page: usize = "1000",
        /// Maximum number of labels on a job.
        labels: usize = "32",
        /// Maximum number of jobs and groups that one job may wait for.
        dependencies: usize = "1000",
        /// Maximum number of events that are kept, or that jobs have received and still need.
        events: usize = "10000",
        /// Maximum total size of the payloads of these events.
        event_bytes: usize as event_bytes: Size = "64MiB",
        /// Minimum lease duration.
        min_lease: Span = "1s",
        /// Maximum lease duration.
        max_lease: Span = "24h",
        /// Maximum timeout of a run.
        max_timeout: Span = "366d",
        /// Maximum delay before a job is due.
        max_ahead: Span = "3653d",
        /// Maximum retention of a result or an event, and maximum window of a unique key.
        max_retention: Span = "90d",
        /// Maximum nesting depth of a payload.
        depth: usize => 64,
        /// Maximum size of a unique key or a client id, in bytes.
        key_bytes: usize => 256,
        /// Maximum size of a trace context, in bytes.
        trace_bytes: usize => 1024,
        /// Maximum size of a label's name and of its value, in bytes.
        label_bytes: usize => 256,
    }
}

impl Caps {
    /// Upper bound of the payload cap.
    pub const MAX_PAYLOAD: usize = 16 << 20;
}
