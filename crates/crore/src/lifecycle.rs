//! Graceful shutdown: nothing new is taken, and running jobs may come to their end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crore_core::{Span, State};

use crate::engine::Inner;
use crate::error::Error;
use crate::events::{Happened, Heard, Listener};

/// Graceful shutdown; see [`Engine::lifecycle`](crate::Engine::lifecycle).
///
/// ```
/// use crore::core::machine::Outcome;
/// use crore::core::{Name, Span};
/// use crore::fetch::Fetch;
/// use crore::finish::Finish;
/// use crore::{Engine, Error, block_on};
///
/// # fn main() -> Result<(), Error> {
/// let engine = Engine::memory();
/// engine.push("mail", "hello").wait()?;
/// let ask = Fetch::new(Name::new("queue", "mail")?, Name::new("worker", "w1")?);
/// let job = block_on(engine.fetch(ask))?.remove(0);
///
/// engine.lifecycle().quiesce();
/// assert!(matches!(engine.push("mail", "again").wait(), Err(Error::Stopping)));
/// assert_eq!(block_on(engine.lifecycle().idle(Span::ZERO))?, 1);
/// // What was handed out can still be reported.
/// block_on(engine.finish(Finish::of(&job, Outcome::Done { result: None })))?;
/// assert_eq!(block_on(engine.lifecycle().idle(Span::from_secs(5)))?, 0);
/// engine.stop()
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Lifecycle<'a> {
    pub(crate) inner: &'a Inner,
}

impl Lifecycle<'_> {
    /// Takes nothing new: pushes are refused with [`Error::Stopping`], fetches that wait are answered without
    /// jobs, and workers of this program finish the jobs that they have. Reports, renewals and lookups go on
    /// until the engine is [stopped](crate::Engine::stop). This cannot be undone.
    pub fn quiesce(self) {
        self.inner.is_quiet.store(true, Ordering::Release);
        self.inner.dispatch.wake_all();
    }

    /// Waits until no job runs, at most so long, and gives how many still do. On a store that several
    /// engines share, the jobs of all of them count.
    pub async fn idle(self, at_most: Span) -> Result<u64, Error> {
        self.inner.idle(at_most).await
    }

    /// Whether the engine is being stopped.
    pub fn is_stopping(self) -> bool {
        self.inner.is_stopping()
    }
}

impl Inner {
    /// Whether nothing new is taken any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Acquire) || self.is_stopping()
    }

    async fn idle(&self, at_most: Span) -> Result<u64, Error> {
        // Whatever ends from here on is heard of, so nothing ends unseen between a look and the wait.
        let mut listener = self.events.listen();
        let mut sleep = pin!(self.timers.sleep(at_most));
        loop {
            let counts = self.store.counts(None).await?;
            let running = counts.iter().filter(|count| count.state == State::Running);
            let n = running.map(|count| count.n).sum();
            if n == 0 {
                return Ok(0);
            }
            let mut ended = pin!(one_ended(&mut listener));
            let is_over = poll_fn(|context| match ended.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(ended.map(|()| false)),
                Poll::Pending => sleep.as_mut().poll(context).map(|()| Ok(true)),
            });
            if is_over.await? {
                return Ok(n);
            }
        }
    }
}

/// Waits until a job may have stopped running.
async fn one_ended(listener: &mut Listener) -> Result<(), Error> {
    loop {
        match listener.next().await {
            None => return Err(Error::Stopping),
            Some(Heard::Event(event)) if event.what == Happened::Pushed => {}
            Some(Heard::Event(_) | Heard::Missed(_)) => return Ok(()),
        }
    }
}
