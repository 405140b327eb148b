//! What surrounds a run: whether it is to stop, and who hears what it says meanwhile.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Something that a run says before it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A line of its log, without the end of the line.
    Line(String),
    /// How far it is, in percent, and what it is at.
    Progress(u8, String),
}

/// What surrounds a run.
#[derive(Clone)]
pub struct Context {
    stop: CancellationToken,
    hears: Arc<dyn Fn(Said) + Send + Sync>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl Context {
    /// What stops it, and who hears what it says. Whoever hears does not keep it waiting.
    pub fn new(stop: CancellationToken, hears: impl Fn(Said) + Send + Sync + 'static) -> Self {
        Self { stop, hears: Arc::new(hears) }
    }

    /// Waits until the run is to stop: it was cancelled, its time is over, its lease is lost, or the
    /// host is going down.
    pub fn stopped(&self) -> WaitForCancellationFuture<'_> {
        self.stop.cancelled()
    }

    /// Whether the run is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Says a line of the log.
    pub fn line(&self, text: impl Into<String>) {
        (self.hears)(Said::Line(text.into()));
    }

    /// Says how far it is.
    pub fn progress(&self, percent: u8, text: impl Into<String>) {
        (self.hears)(Said::Progress(percent, text.into()));
    }
}
