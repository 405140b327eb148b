//! A span, before it is written in the words of any protocol.

use std::sync::Arc;

use crore_core::Time;

/// What a span is to the job, in the words that all protocols share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It made the job.
    Producer,
    /// It ran the job.
    Consumer,
    /// It happened here.
    Internal,
}

/// Something that took some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace.
    pub trace: u128,
    /// The span's own id.
    pub id: u64,
    /// Whose child it is; `None`: the trace begins here.
    pub parent: Option<u64>,
    /// Another span of the same trace that led to it.
    pub link: Option<u64>,
    /// What others on the way have written.
    pub state: Option<Arc<str>>,
    /// `push`, `wait`, `run` or `finish`.
    pub name: &'static str,
    /// What it is to the job.
    pub kind: Kind,
    /// When it began.
    pub begun_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// What else is known.
    pub attributes: Vec<(&'static str, String)>,
    /// What went wrong.
    pub error: Option<String>,
}
