use crore_core::settings::section;
use crore_core::{Size, Span};

section! {
    /// What callers may not pass. What is larger is refused, and says so.
    pub(crate) struct Caps = "caps" {
        /// A payload; at most 16MiB.
        payload: Size = "1MiB",
        /// A result, or the detail of an error.
        result: Size = "1MiB",
        /// An error message or a log line; a longer one is cut.
        text: Size = "64KiB",
        /// Jobs in one batch.
        batch_jobs: u64 = "1000",
        /// All payloads of one batch.
        batch_bytes: Size = "8MiB",
        /// Jobs in one fetch.
        fetch: u64 = "1000",
        /// All payloads of one fetch: when they are reached, the other jobs stay where they are.
        fetch_bytes: Size = "16MiB",
        /// Rows in one page of a list.
        page: u64 = "1000",
        /// Labels of a job.
        labels: u64 = "32",
        /// Jobs and groups that one job may wait for.
        dependencies: u64 = "1000",
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
    }
}

impl Caps {
    /// The caps of the engine.
    pub(crate) fn caps(&self) -> crore_core::Caps {
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        crore_core::Caps {
            payload_bytes: count(self.payload.0),
            result_bytes: count(self.result.0),
            text_bytes: count(self.text.0),
            batch_jobs: count(self.batch_jobs),
            batch_bytes: count(self.batch_bytes.0),
            fetch: count(self.fetch),
            fetch_bytes: count(self.fetch_bytes.0),
            page: count(self.page),
            labels: count(self.labels),
            dependencies: count(self.dependencies),
            min_lease: self.min_lease,
            max_lease: self.max_lease,
            max_timeout: self.max_timeout,
            max_ahead: self.max_ahead,
            max_retention: self.max_retention,
            ..crore_core::Caps::default()
        }
    }
}
