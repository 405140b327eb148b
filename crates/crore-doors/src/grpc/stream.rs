//! `crore.v1.Work/Stream`: translates the messages of a worker's session.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crore_api::Grant;
use crore_wire::grpc::v1;
use futures_util::stream::{Stream, StreamExt};
use tonic::Status;

use crate::Doors;
use crate::worker_session::{SessionError, WorkerSession};

/// A message from a worker, or why it could not be read.
type IncomingMessage = Result<v1::WorkerSays, Status>;

/// A worker's session as a response stream.
pub(crate) struct WorkerResponseStream<S> {
    /// `None`: the worker has closed its stream.
    messages: Option<S>,
    session: WorkerSession,
    /// Why the worker's stream broke; sent after the responses to its reports.
    input_error: Option<Status>,
}

impl<S: Stream<Item = IncomingMessage> + Unpin> WorkerResponseStream<S> {
    pub(crate) fn new(doors: Doors, grant: Grant, messages: S) -> Self {
        let session = WorkerSession::new(doors, grant);
        Self { messages: Some(messages), session, input_error: None }
    }

    /// Reads messages while the session has room.
    fn read(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        while self.session.has_room()
            && let Some(messages) = &mut self.messages
            && let Poll::Ready(message) = messages.poll_next_unpin(context)
        {
            match message {
                Some(Ok(message)) => self.session.receive(message.into())?,
                Some(Err(status)) if self.session.awaits_hello() => return Err(status),
                ended => {
                    self.messages = None;
                    self.input_error = ended.and_then(Result::err);
                    self.session.close_input();
                }
            }
        }
        Ok(())
    }
}

impl<S: Stream<Item = IncomingMessage> + Unpin> Stream for WorkerResponseStream<S> {
    type Item = Result<v1::ServerSays, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(status) = self.read(context) {
            self.session.end();
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(match ready!(self.session.poll_message(context)) {
            Some(Ok(message)) => Some(Ok(message.into())),
            Some(Err(error)) => Some(Err(error.into())),
            None => self.input_error.take().map(Err),
        })
    }
}

impl From<SessionError> for Status {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Fault(fault) => fault.into(),
            SessionError::Replaced => Self::aborted("the same incarnation has another stream"),
        }
    }
}
