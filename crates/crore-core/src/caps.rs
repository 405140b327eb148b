//! The sizes and counts that a caller may not pass: one table for every door.

use crate::time::Span;

/// What is accepted from outside. The defaults are the documented ones; a server may raise the
/// payload cap up to [`Caps::MAX_PAYLOAD`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of a payload.
    pub payload_bytes: usize,
    /// Bytes of a result or of an error's detail.
    pub result_bytes: usize,
    /// Bytes of an error message or a log line; longer ones are cut, not refused.
    pub text_bytes: usize,
    /// Levels of nesting in a payload.
    pub depth: usize,
    /// Jobs in one batch.
    pub batch_jobs: usize,
    /// Payload bytes in one batch.
    pub batch_bytes: usize,
    /// Bytes of a unique key or a client id.
    pub key_bytes: usize,
    /// Bytes of a trace context.
    pub trace_bytes: usize,
    /// Labels of a job.
    pub labels: usize,
    /// Bytes of a label's name and of its value, each.
    pub label_bytes: usize,
    /// Jobs and groups that one job may wait for.
    pub dependencies: usize,
    /// The shortest lease.
    pub min_lease: Span,
    /// The longest lease.
    pub max_lease: Span,
    /// The longest timeout of a run.
    pub max_timeout: Span,
    /// How far ahead a job may be due.
    pub max_ahead: Span,
    /// How long a result, or a unique key's window, may be kept.
    pub max_retention: Span,
    /// Jobs in one fetch.
    pub fetch: usize,
    /// Payload bytes in one fetch: when they are reached, no more is added. It always has one job.
    pub fetch_bytes: usize,
    /// Rows in one page of a list.
    pub page: usize,
}

const DAY: Span = Span::from_secs(24 * 60 * 60);

impl Caps {
    /// The largest payload cap that a server may be given.
    pub const MAX_PAYLOAD: usize = 16 << 20;
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            payload_bytes: 1 << 20,
            result_bytes: 1 << 20,
            text_bytes: 64 << 10,
            depth: 64,
            batch_jobs: 1000,
            batch_bytes: 8 << 20,
            key_bytes: 256,
            trace_bytes: 1024,
            labels: 32,
            label_bytes: 256,
            dependencies: 1000,
            min_lease: Span::from_secs(1),
            max_lease: DAY,
            max_timeout: DAY.times(366),
            max_ahead: DAY.times(3653),
            max_retention: DAY.times(90),
            fetch: 1000,
            fetch_bytes: 16 << 20,
            page: 1000,
        }
    }
}
