//! How long a connection lives.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Phase;

/// Tells a connection when it is to end.
#[derive(Debug)]
pub(super) struct Life {
    phase: watch::Receiver<Phase>,
    max_age: Duration,
    over: Pin<Box<Sleep>>,
    is_ending: bool,
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It ends when the request that is under way is answered.
    End,
    /// It was told so as long ago as a connection may live.
    Late,
    /// It ends now.
    Leave,
}

impl Life {
    pub(super) fn new(phase: watch::Receiver<Phase>, max_age: Duration) -> Self {
        let over = Box::pin(sleep_until(Instant::now() + max_age));
        Self { phase, max_age, over, is_ending: false }
    }

    /// Whether the connection was told to end.
    pub(super) const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Comes when the connection is too old or the server stops, and again when it has not ended since.
    pub(super) async fn turn(&mut self) -> Turn {
        let turn = tokio::select! {
            () = self.over.as_mut() => if self.is_ending { Turn::Late } else { Turn::End },
            changed = self.phase.changed() => match changed.is_err() || *self.phase.borrow() == Phase::Over {
                true => Turn::Leave,
                false => Turn::End,
            },
        };
        self.is_ending = true;
        self.over.as_mut().reset(Instant::now() + self.max_age);
        turn
    }
}
