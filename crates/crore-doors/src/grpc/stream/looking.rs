//! A look for jobs that goes on when nobody asks how far it is.
//!
//! A stream is polled by its connection, and not at all while its worker does not read. Whoever waits for jobs
//! and is not polled keeps a wake-up that was meant for somebody who would take them: so what has to wait does so in a
//! task of its own. The most that a worker which does not read can hold up is then what it has slots for, once, until
//! the leases end.

use std::pin::Pin;
use std::task::{Context, Poll};

use crore::Error;
use crore_core::Job;
use tokio::task::JoinHandle;

type Found = Result<Vec<Job>, Error>;

/// A look for jobs. To drop it ends it.
pub(crate) enum Looking {
    /// It was not looked at yet.
    Here(Pin<Box<dyn Future<Output = Found> + Send>>),
    /// It has to wait.
    There(JoinHandle<Found>),
}

impl Looking {
    pub(crate) fn new(looking: impl Future<Output = Found> + Send + 'static) -> Self {
        Self::Here(Box::pin(looking))
    }
}

impl Future for Looking {
    type Output = Found;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Found> {
        if let Self::Here(looking) = &mut *self {
            if let Poll::Ready(found) = looking.as_mut().poll(context) {
                return Poll::Ready(found);
            }
            let looking = std::mem::replace(looking, Box::pin(std::future::pending()));
            *self = Self::There(tokio::spawn(looking));
        }
        match &mut *self {
            Self::Here(_) => Poll::Pending,
            // One that was ended, or that panicked, has found nothing.
            Self::There(task) => {
                Pin::new(task).poll(context).map(|found| found.unwrap_or(Ok(Vec::new())))
            }
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if let Self::There(task) = self {
            task.abort();
        }
    }
}
