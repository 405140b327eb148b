//! Lifetime of a connection: maximum age, and shutdown.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Phase;

/// Signals a connection when it has to end.
#[derive(Debug)]
pub(super) struct ConnectionLifetime {
    phase: watch::Receiver<Phase>,
    max_age: Duration,
    deadline: Pin<Box<Sleep>>,
    is_ending: bool,
}

/// How a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSignal {
    /// Gracefully: after the request in flight.
    Graceful,
    /// The connection was asked to end one maximum age ago, and has not.
    Overdue,
    /// Immediately.
    Immediate,
}

impl ConnectionLifetime {
    pub(super) fn new(phase: watch::Receiver<Phase>, max_age: Duration) -> Self {
        let deadline = Box::pin(sleep_until(Instant::now() + max_age));
        Self { phase, max_age, deadline, is_ending: false }
    }

    /// Whether the connection was asked to end.
    pub(super) const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Completes when the connection reaches its maximum age or the server stops, and again if it has not ended one
    /// maximum age later.
    pub(super) async fn next_signal(&mut self) -> EndSignal {
        let signal = tokio::select! {
            () = self.deadline.as_mut() => if self.is_ending { EndSignal::Overdue } else { EndSignal::Graceful },
            changed = self.phase.changed() => match changed.is_err() || *self.phase.borrow() == Phase::Closed {
                true => EndSignal::Immediate,
                false => EndSignal::Graceful,
            },
        };
        self.is_ending = true;
        self.deadline.as_mut().reset(Instant::now() + self.max_age);
        signal
    }
}
