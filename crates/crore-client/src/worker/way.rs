//! The way that the messages of a worker take to the server, and back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crore_wire::grpc::{Handlers, v1};
use crore_wire::worker::{ServerMessage, Session};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tonic::Streaming;

use super::message::Message;
use crate::{Client, Error};

/// One session with a server, whichever way its messages take.
pub(super) trait Link: Send {
    /// Sends a message.
    fn send(&mut self, message: Message) -> Result<(), Error>;

    /// The next message of the server; an error: the session is over.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ServerMessage, Error>>;
}

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn Link>, Error>> + Send>>;

/// The way to a server: a [`Client`]'s connection, or [straight](Self::straight) into one in the same process. Clones
/// share the connection.
#[derive(Clone)]
pub struct Way(Arc<dyn Fn(Message) -> Opening + Send + Sync>);

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").finish_non_exhaustive()
    }
}

impl Way {
    /// Straight to a server in the same process: `open` begins a session, whose messages are handed over in plain types
    /// with no encoding between.
    pub fn straight<F, S>(open: F) -> Self
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: Session + 'static,
    {
        Self(Arc::new(move |hello| {
            let mut session = open();
            session.send(hello.into());
            let link: Box<dyn Link> = Box::new(Straight(session));
            Box::pin(std::future::ready(Ok(link)))
        }))
    }

    /// Opens a session with its first message.
    pub(super) async fn open(&self, hello: Message) -> Result<Box<dyn Link>, Error> {
        (self.0)(hello).await
    }
}

impl From<&Client> for Way {
    fn from(client: &Client) -> Self {
        let work = client.work();
        Self(Arc::new(move |hello| {
            let mut work = work.clone();
            Box::pin(async move {
                let (says, to_say) = mpsc::unbounded_channel();
                let mut link = Says(says);
                // The server answers when it has heard something.
                link.send(hello)?;
                let hears = work.stream(ToSay(to_say)).await?.into_inner();
                let link: Box<dyn Link> =
                    Box::new(ByGrpc { says: link, hears, handlers: Handlers::default() });
                Ok(link)
            })
        }))
    }
}

/// A session in the same process.
struct Straight<S>(S);

impl<S: Session> Link for Straight<S> {
    fn send(&mut self, message: Message) -> Result<(), Error> {
        self.0.send(message.into());
        Ok(())
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ServerMessage, Error>> {
        self.0.poll_message(context).map(|polled| Ok(polled.ok_or(Error::Unknown)??))
    }
}

/// A session by gRPC.
struct ByGrpc {
    says: Says,
    hears: Streaming<v1::ServerSays>,
    handlers: Handlers,
}

impl Link for ByGrpc {
    fn send(&mut self, message: Message) -> Result<(), Error> {
        self.says.send(message)
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ServerMessage, Error>> {
        self.hears.poll_next_unpin(context).map(|heard| {
            let heard = heard.ok_or(Error::Unknown)??;
            self.handlers.read(heard).map_err(|invalid| Error::Malformed(invalid.to_string()))
        })
    }
}

struct Says(mpsc::UnboundedSender<v1::WorkerSays>);

impl Says {
    fn send(&mut self, message: Message) -> Result<(), Error> {
        self.0.send(message.into()).map_err(|_| Error::Unknown)
    }
}

/// Messages of a worker, as the stream that gRPC sends.
struct ToSay(mpsc::UnboundedReceiver<v1::WorkerSays>);

impl Stream for ToSay {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}
