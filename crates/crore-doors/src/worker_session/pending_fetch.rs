//! A fetch that makes progress even while its session is not polled.
//!
//! A session is polled by its connection, and not at all while the peer does not read. A waiting fetch that is not
//! polled would hold a wake-up meant for another worker, so a fetch that has to wait moves to a task of its own. A
//! worker that does not read can then hold up at most one fetch for its free slots, until the leases expire.

use std::pin::Pin;
use std::task::{Context, Poll};

use crore::fetch::Fetch;
use crore::{Engine, Error};
use crore_core::Job;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::BoxFuture;

type FetchResult = Result<Vec<Job>, Error>;

/// A fetch in flight. Dropping it aborts it: jobs that it claims at that moment wait until their leases expire.
pub(crate) struct PendingFetch {
    state: PendingFetchState,
    may_spawn: bool,
    /// Dropping it ends the fetch gracefully.
    cancel: Option<oneshot::Sender<()>>,
}

enum PendingFetchState {
    /// Polled by the session, until it has to wait.
    Inline(BoxFuture<FetchResult>),
    Spawned(JoinHandle<FetchResult>),
}

impl PendingFetch {
    /// A fetch for a session that may not be polled while the fetch waits.
    pub(crate) fn new(engine: &Engine, request: Fetch) -> Self {
        let mut fetch = Self::inline(engine, request);
        fetch.may_spawn = true;
        fetch
    }

    /// A fetch for a session that is polled whenever it is woken; it needs no task.
    pub(super) fn inline(engine: &Engine, request: Fetch) -> Self {
        let (engine, (cancel, cancelled)) = (engine.clone(), oneshot::channel());
        // Nothing is sent: dropping the sender is the signal.
        let fetching = async move {
            engine.deliveries().fetch_with_cancel(request, async { drop(cancelled.await) }).await
        };
        Self {
            state: PendingFetchState::Inline(Box::pin(fetching)),
            may_spawn: false,
            cancel: Some(cancel),
        }
    }

    /// Lets the fetch end soon. It then resolves with the jobs that it has claimed meanwhile, usually none.
    pub(super) fn cancel(&mut self) {
        self.cancel = None;
    }

    /// Ends the fetch: returns jobs that it is claiming, and claims no more.
    pub(crate) async fn end(mut self) -> FetchResult {
        self.cancel = None;
        self.await
    }
}

impl Future for PendingFetch {
    type Output = FetchResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FetchResult> {
        let may_spawn = self.may_spawn;
        if let PendingFetchState::Inline(fetching) = &mut self.state {
            let polled = fetching.as_mut().poll(context);
            if polled.is_ready() || !may_spawn {
                return polled;
            }
            let fetching = std::mem::replace(fetching, Box::pin(std::future::pending()));
            self.state = PendingFetchState::Spawned(tokio::spawn(fetching));
        }
        match &mut self.state {
            PendingFetchState::Inline(_) => Poll::Pending,
            // A task that was aborted or panicked has fetched nothing.
            PendingFetchState::Spawned(task) => {
                Pin::new(task).poll(context).map(|fetched| fetched.unwrap_or(Ok(Vec::new())))
            }
        }
    }
}

impl Drop for PendingFetch {
    fn drop(&mut self) {
        if let PendingFetchState::Spawned(task) = &self.state {
            task.abort();
        }
    }
}
