//! A look for jobs that goes on when nobody asks how far it is.
//!
//! A stream is polled by its connection, and not at all while its worker does not read. Whoever waits for jobs
//! and is not polled keeps a wake-up that was meant for somebody who would take them: so what has to wait does so in a
//! task of its own. The most that a worker which does not read can hold up is then what it has slots for, once, until
//! the leases end.

use std::pin::Pin;
use std::task::{Context, Poll};

use crore::fetch::Fetch;
use crore::{Engine, Error};
use crore_core::Job;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Found = Result<Vec<Job>, Error>;

/// A look for jobs. To drop it ends it; what it finds in that moment waits for the end of its lease.
pub(crate) struct Looking {
    place: Place,
    /// Dropped, it ends the look in good order.
    leaves: Option<oneshot::Sender<()>>,
}

enum Place {
    /// It was not looked at yet.
    Here(Pin<Box<dyn Future<Output = Found> + Send>>),
    /// It has to wait.
    There(JoinHandle<Found>),
}

impl Looking {
    pub(crate) fn new(engine: &Engine, ask: Fetch) -> Self {
        let (engine, (leaves, left)) = (engine.clone(), oneshot::channel());
        // Nothing is ever said to whoever looks but that it is over.
        let looking = async move { engine.fetch_unless(ask, async { drop(left.await) }).await };
        Self { place: Place::Here(Box::pin(looking)), leaves: Some(leaves) }
    }

    /// Ends it: what is being taken comes, and nothing else.
    pub(crate) async fn end(mut self) -> Found {
        self.leaves = None;
        self.await
    }
}

impl Future for Looking {
    type Output = Found;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Found> {
        if let Place::Here(looking) = &mut self.place {
            if let Poll::Ready(found) = looking.as_mut().poll(context) {
                return Poll::Ready(found);
            }
            let looking = std::mem::replace(looking, Box::pin(std::future::pending()));
            self.place = Place::There(tokio::spawn(looking));
        }
        match &mut self.place {
            Place::Here(_) => Poll::Pending,
            // One that was ended, or that panicked, has found nothing.
            Place::There(task) => {
                Pin::new(task).poll(context).map(|found| found.unwrap_or(Ok(Vec::new())))
            }
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if let Place::There(task) = &self.place {
            task.abort();
        }
    }
}
