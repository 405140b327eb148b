//! The session of a worker in the server's own process, such as the host of its runners. Messages are handed over as
//! they are.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use crore_api::{Fault, grpc};
use crore_wire::worker::{ServerMessage, Session, SessionEnd, WorkerMessage};
use tonic::Code::{DeadlineExceeded, Unavailable};

use crate::Doors;
use crate::worker_session::{SessionError, WorkerSession};

/// The session of a worker in this process.
pub(crate) struct LocalSession {
    /// Messages of the worker that were not processed yet.
    said: VecDeque<WorkerMessage>,
    session: WorkerSession,
}

impl LocalSession {
    pub(crate) fn new(doors: Doors) -> Self {
        Self { said: VecDeque::new(), session: WorkerSession::local(doors) }
    }

    /// Passes on all that the worker has said, as long as there is room for it.
    fn read(&mut self) -> Result<(), SessionError> {
        while self.session.has_room()
            && let Some(said) = self.said.pop_front()
        {
            self.session.receive(said)?;
        }
        Ok(())
    }
}

impl Session for LocalSession {
    fn send(&mut self, message: WorkerMessage) {
        self.said.push_back(message);
    }

    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerMessage, SessionEnd>>> {
        if let Err(error) = self.read() {
            return Poll::Ready(Some(Err(error.into())));
        }
        let polled = ready!(self.session.poll_message(context));
        Poll::Ready(polled.map(|polled| polled.map_err(Into::into)))
    }
}

impl From<SessionError> for SessionEnd {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Fault(fault) => end_of(&fault),
            SessionError::Replaced => Self {
                code: None,
                field: None,
                message: "the same incarnation has another session".to_owned(),
                is_transient: false,
            },
        }
    }
}

fn end_of(fault: &Fault) -> SessionEnd {
    let (code, problem) = (fault.code(), fault.problem());
    SessionEnd {
        code: Some(code),
        field: problem.field.clone(),
        message: problem.detail.clone(),
        // As a worker across the network reads it.
        is_transient: matches!(grpc::code(code), Unavailable | DeadlineExceeded),
    }
}
