//! Transports for the messages of a worker: gRPC, or direct calls in the same process.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crore_wire::grpc::{ReceivedHandlers, v1};
use crore_wire::worker::{ServerMessage, Session};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tonic::Streaming;

use super::message::OutgoingMessage;
use crate::{Client, Error};

/// A session with a server, on any transport.
pub(super) trait TransportSession: Send {
    /// Sends a message.
    fn send(&mut self, message: OutgoingMessage) -> Result<(), Error>;

    /// Polls for the next message of the server. An error ends the session.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ServerMessage, Error>>;
}

type SessionFuture = Pin<Box<dyn Future<Output = Result<Box<dyn TransportSession>, Error>> + Send>>;

/// The transport of a worker: a [`Client`]'s connection, or a server [in the same process](Self::in_process). Clones
/// share the connection.
#[derive(Clone)]
pub struct WorkerTransport(Arc<dyn Fn(OutgoingMessage) -> SessionFuture + Send + Sync>);

impl fmt::Debug for WorkerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerTransport").finish_non_exhaustive()
    }
}

impl WorkerTransport {
    /// A server in the same process. `open` starts a session; messages are passed as plain types, without encoding.
    pub fn in_process<F, S>(open: F) -> Self
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: Session + 'static,
    {
        Self(Arc::new(move |hello| {
            let mut session = open();
            session.send(hello.into());
            let link: Box<dyn TransportSession> = Box::new(InProcessSession(session));
            Box::pin(std::future::ready(Ok(link)))
        }))
    }

    /// Opens a session and sends its first message.
    pub(super) async fn open(
        &self,
        hello: OutgoingMessage,
    ) -> Result<Box<dyn TransportSession>, Error> {
        (self.0)(hello).await
    }
}

impl From<&Client> for WorkerTransport {
    fn from(client: &Client) -> Self {
        let work = client.work();
        Self(Arc::new(move |hello| {
            let mut work = work.clone();
            Box::pin(async move {
                let (sender, receiver) = mpsc::unbounded_channel();
                let mut sender = GrpcSender(sender);
                // The server answers only after the first message.
                sender.send(hello)?;
                let responses = work.stream(GrpcRequests(receiver)).await?.into_inner();
                let session: Box<dyn TransportSession> = Box::new(GrpcSession {
                    sender,
                    responses,
                    handlers: ReceivedHandlers::default(),
                });
                Ok(session)
            })
        }))
    }
}

/// A session in the same process.
struct InProcessSession<S>(S);

impl<S: Session> TransportSession for InProcessSession<S> {
    fn send(&mut self, message: OutgoingMessage) -> Result<(), Error> {
        self.0.send(message.into());
        Ok(())
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ServerMessage, Error>> {
        self.0.poll_message(context).map(|polled| Ok(polled.ok_or(Error::Unknown)??))
    }
}

/// A session over gRPC.
struct GrpcSession {
    sender: GrpcSender,
    responses: Streaming<v1::ServerSays>,
    handlers: ReceivedHandlers,
}

impl TransportSession for GrpcSession {
    fn send(&mut self, message: OutgoingMessage) -> Result<(), Error> {
        self.sender.send(message)
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ServerMessage, Error>> {
        self.responses.poll_next_unpin(context).map(|message| {
            let message = message.ok_or(Error::Unknown)??;
            self.handlers.read(message).map_err(|invalid| Error::Malformed(invalid.to_string()))
        })
    }
}

struct GrpcSender(mpsc::UnboundedSender<v1::WorkerSays>);

impl GrpcSender {
    fn send(&mut self, message: OutgoingMessage) -> Result<(), Error> {
        self.0.send(message.into()).map_err(|_| Error::Unknown)
    }
}

/// The outgoing messages as the request stream of the gRPC call.
struct GrpcRequests(mpsc::UnboundedReceiver<v1::WorkerSays>);

impl Stream for GrpcRequests {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}
