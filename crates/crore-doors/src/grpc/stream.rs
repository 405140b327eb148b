//! `crore.v1.Work/Stream`: the messages of a worker's session, translated.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crore_wire::grpc::v1;
use futures_util::stream::{Stream, StreamExt};
use tonic::Status;

use crate::Doors;
use crate::worker_session::{SessionError, WorkerSession};

/// A message of a worker, or why it could not be read.
type Said = Result<v1::WorkerSays, Status>;

/// The session of a worker as the answers of its stream.
pub(crate) struct WorkerStream<S> {
    /// `None`: the worker will say nothing more.
    says: Option<S>,
    session: WorkerSession,
    /// Why nothing more that the worker says can be read; told when its reports are answered.
    broken: Option<Status>,
}

impl<S: Stream<Item = Said> + Unpin> WorkerStream<S> {
    pub(crate) fn new(doors: Doors, says: S) -> Self {
        Self { says: Some(says), session: WorkerSession::new(doors), broken: None }
    }

    /// Passes on all that the worker has said, as long as there is room for it.
    fn read(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        while self.session.has_room()
            && let Some(says) = &mut self.says
            && let Poll::Ready(said) = says.poll_next_unpin(context)
        {
            match said {
                Some(Ok(said)) => self.session.receive(said.into())?,
                Some(Err(status)) if self.session.awaits_hello() => return Err(status),
                ended => {
                    self.says = None;
                    self.broken = ended.and_then(Result::err);
                    self.session.close_input();
                }
            }
        }
        Ok(())
    }
}

impl<S: Stream<Item = Said> + Unpin> Stream for WorkerStream<S> {
    type Item = Result<v1::ServerSays, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(status) = self.read(context) {
            self.session.end();
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(match ready!(self.session.poll_message(context)) {
            Some(Ok(message)) => Some(Ok(message.into())),
            Some(Err(error)) => Some(Err(error.into())),
            None => self.broken.take().map(Err),
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
