//! The context of a run: its stop signal, and the sink for its log lines and progress.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// A message that a job sends while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunMessage {
    /// A log line without its line ending.
    Line(String),
    /// Progress in percent, and a description of the current step.
    Progress(u8, String),
}

/// The context of a run.
#[derive(Clone)]
pub struct RunContext {
    stop: CancellationToken,
    sink: Arc<dyn Fn(RunMessage) + Send + Sync>,
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl RunContext {
    /// Makes a context from a stop signal and a sink. The sink must not block.
    pub fn new(stop: CancellationToken, sink: impl Fn(RunMessage) + Send + Sync + 'static) -> Self {
        Self { stop, sink: Arc::new(sink) }
    }

    /// Waits until the run must stop: the job was cancelled, its timeout passed, its lease was
    /// lost, or the host is shutting down.
    pub fn stopped(&self) -> WaitForCancellationFuture<'_> {
        self.stop.cancelled()
    }

    /// Whether the run must stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Sends a log line.
    pub fn line(&self, text: impl Into<String>) {
        (self.sink)(RunMessage::Line(text.into()));
    }

    /// Reports progress.
    pub fn progress(&self, percent: u8, text: impl Into<String>) {
        (self.sink)(RunMessage::Progress(percent, text.into()));
    }
}
