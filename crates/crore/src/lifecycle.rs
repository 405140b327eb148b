//! Graceful shutdown: the engine accepts nothing new, and running jobs may finish.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crore_core::{Span, State};

use crate::engine::EngineInner;
use crate::error::Error;
use crate::events::{EventListener, EventType, ListenerItem};

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
/// let fetch = Fetch::new(Name::new("queue", "mail")?, Name::new("worker", "w1")?);
/// let job = block_on(engine.fetch(fetch))?.remove(0);
///
/// engine.lifecycle().quiesce();
/// assert!(matches!(engine.push("mail", "again").wait(), Err(Error::Stopping)));
/// assert_eq!(block_on(engine.lifecycle().idle(Span::ZERO))?, 1);
/// // A job that was handed out can still be reported.
/// block_on(engine.finish(Finish::of(&job, Outcome::Done { result: None })))?;
/// assert_eq!(block_on(engine.lifecycle().idle(Span::from_secs(5)))?, 0);
/// engine.stop()
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Lifecycle<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Lifecycle<'_> {
    /// Stops accepting work: pushes fail with [`Error::Stopping`], waiting fetches return no jobs, and workers in
    /// this process finish their current jobs and return. Reports, renewals and lookups continue until the engine
    /// is [stopped](crate::Engine::stop). This cannot be undone.
    pub fn quiesce(self) {
        self.inner.is_quiesced.store(true, Ordering::Release);
        self.inner.wait_list.wake_all();
    }

    /// Waits until no job is running, or until the timeout, and returns how many still are. On a shared store the
    /// running jobs of all engines count.
    pub async fn idle(self, timeout: Span) -> Result<u64, Error> {
        self.inner.idle(timeout).await
    }

    /// Whether the engine is being stopped.
    pub fn is_stopping(self) -> bool {
        self.inner.is_stopping()
    }
}

impl EngineInner {
    /// Whether the engine accepts no new work.
    pub(crate) fn is_quiesced(&self) -> bool {
        self.is_quiesced.load(Ordering::Acquire) || self.is_stopping()
    }

    async fn idle(&self, timeout: Span) -> Result<u64, Error> {
        // Subscribe before counting, so that no end is missed in between.
        let mut listener = self.events.listen();
        let mut sleep = pin!(self.timers.sleep(timeout));
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
async fn one_ended(listener: &mut EventListener) -> Result<(), Error> {
    loop {
        match listener.next().await {
            None => return Err(Error::Stopping),
            Some(ListenerItem::Sent(_)) => {}
            Some(ListenerItem::Event(event)) if event.what == EventType::Pushed => {}
            Some(ListenerItem::Event(_) | ListenerItem::Missed(_)) => return Ok(()),
        }
    }
}
