//! The way to a server that a worker's stream takes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crore_wire::grpc::v1;
use futures_util::Stream;
use tokio::sync::mpsc;
use tonic::Status;

use crate::{Client, Error};

/// What a worker says, as a stream.
#[derive(Debug)]
pub struct Says(mpsc::UnboundedReceiver<v1::WorkerSays>);

impl Says {
    pub(super) fn new() -> (mpsc::UnboundedSender<v1::WorkerSays>, Self) {
        let (says, to_say) = mpsc::unbounded_channel();
        (says, Self(to_say))
    }
}

impl Stream for Says {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}

/// What a worker hears, as a stream.
pub(super) type Hears = Pin<Box<dyn Stream<Item = Result<v1::ServerSays, Status>> + Send>>;

type Opening = Pin<Box<dyn Future<Output = Result<Hears, Error>> + Send>>;

/// The way to a server: a [`Client`]'s connection, or [straight](Self::straight) into one in the same process. Cloning
/// gives another handle to the same.
#[derive(Clone)]
pub struct Way(Arc<dyn Fn(Says) -> Opening + Send + Sync>);

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").finish_non_exhaustive()
    }
}

impl Way {
    /// Straight to a server, without a connection between: of what is said, it makes what is heard.
    pub fn straight<F, H>(open: F) -> Self
    where
        F: Fn(Says) -> H + Send + Sync + 'static,
        H: Stream<Item = Result<v1::ServerSays, Status>> + Send + 'static,
    {
        Self(Arc::new(move |says| {
            let hears: Hears = Box::pin(open(says));
            Box::pin(std::future::ready(Ok(hears)))
        }))
    }

    pub(super) async fn open(&self, says: Says) -> Result<Hears, Error> {
        (self.0)(says).await
    }
}

impl From<&Client> for Way {
    fn from(client: &Client) -> Self {
        let work = client.work();
        Self(Arc::new(move |says| {
            let mut work = work.clone();
            Box::pin(async move {
                let hears: Hears = Box::pin(work.stream(says).await?.into_inner());
                Ok(hears)
            })
        }))
    }
}
