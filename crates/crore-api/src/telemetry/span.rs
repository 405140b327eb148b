//! A span, independent of the export protocol.

use std::sync::Arc;

use crore_core::Time;

/// Kind of a span, as in OpenTelemetry and Zipkin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceSpanKind {
    /// It pushed the job.
    Producer,
    /// It ran the job.
    Consumer,
    /// Internal to crore.
    Internal,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// Trace id.
    pub trace: u128,
    /// Span id.
    pub id: u64,
    /// Span id of the parent; `None` for the root.
    pub parent: Option<u64>,
    /// Span id of a linked span in the same trace.
    pub link: Option<u64>,
    /// Vendor data (`tracestate`).
    pub state: Option<Arc<str>>,
    /// `push`, `wait`, `run` or `finish`.
    pub name: &'static str,
    /// Kind of the span.
    pub kind: TraceSpanKind,
    /// Start time.
    pub begun_at: Time,
    /// End time.
    pub ended_at: Time,
    /// Attributes.
    pub attributes: Vec<(&'static str, String)>,
    /// Error message.
    pub error: Option<String>,
}
