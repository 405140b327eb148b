//! A fetch that goes on while the session is not polled.
//!
//! A session is polled by its connection, and not at all while the peer does not read. A fetch that waits without being
//! polled would keep a wake-up that was meant for another worker: so a fetch that has to wait moves to a task of its own.
//! A worker that does not read can then hold up at most one fetch for its free slots, until the leases end.

use std::pin::Pin;
use std::task::{Context, Poll};

use crore::fetch::Fetch;
use crore::{Engine, Error};
use crore_core::Job;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::BoxFuture;

type Fetched = Result<Vec<Job>, Error>;

/// A fetch under way. Dropping it aborts it: jobs that it claims in that moment wait for the end of their leases.
pub(crate) struct PendingFetch {
    state: State,
    may_spawn: bool,
    /// Dropping it asks the fetch to end in good order.
    cancel: Option<oneshot::Sender<()>>,
}

enum State {
    /// Polled by the session, until it has to wait.
    Inline(BoxFuture<Fetched>),
    Spawned(JoinHandle<Fetched>),
}

impl PendingFetch {
    /// A fetch for a session that may not be polled while it waits.
    pub(crate) fn new(engine: &Engine, ask: Fetch) -> Self {
        let mut fetch = Self::inline(engine, ask);
        fetch.may_spawn = true;
        fetch
    }

    /// A fetch for a session that is polled whenever it is woken: it needs no task of its own.
    pub(super) fn inline(engine: &Engine, ask: Fetch) -> Self {
        let (engine, (cancel, cancelled)) = (engine.clone(), oneshot::channel());
        // Nothing is ever sent; the sender is dropped.
        let fetching = async move {
            engine.deliveries().fetch_unless(ask, async { drop(cancelled.await) }).await
        };
        Self { state: State::Inline(Box::pin(fetching)), may_spawn: false, cancel: Some(cancel) }
    }

    /// Ends the fetch: jobs that are being claimed are returned, and no others are claimed.
    pub(crate) async fn end(mut self) -> Fetched {
        self.cancel = None;
        self.await
    }
}

impl Future for PendingFetch {
    type Output = Fetched;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Fetched> {
        let may_spawn = self.may_spawn;
        if let State::Inline(fetching) = &mut self.state {
            let polled = fetching.as_mut().poll(context);
            if polled.is_ready() || !may_spawn {
                return polled;
            }
            let fetching = std::mem::replace(fetching, Box::pin(std::future::pending()));
            self.state = State::Spawned(tokio::spawn(fetching));
        }
        match &mut self.state {
            State::Inline(_) => Poll::Pending,
            // A task that was aborted, or that panicked, has fetched nothing.
            State::Spawned(task) => {
                Pin::new(task).poll(context).map(|fetched| fetched.unwrap_or(Ok(Vec::new())))
            }
        }
    }
}

impl Drop for PendingFetch {
    fn drop(&mut self) {
        if let State::Spawned(task) = &self.state {
            task.abort();
        }
    }
}
