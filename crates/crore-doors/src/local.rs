//! Session of a worker in the server's own process, such as the host of its runners. Messages are passed by value,
//! without encoding.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use crore_api::{Fault, grpc};
use crore_wire::worker::{ServerMessage, Session, SessionEnd, WorkerMessage};
use tonic::Code::{DeadlineExceeded, Unavailable};

use crate::Doors;
use crate::worker_session::{SessionError, WorkerSession};

/// The session of a worker in this process.
pub(crate) struct LocalSession {
    /// Messages from the worker that are not processed yet.
    inbox: VecDeque<WorkerMessage>,
    session: WorkerSession,
}

impl LocalSession {
    pub(crate) fn new(doors: Doors) -> Self {
        Self { inbox: VecDeque::new(), session: WorkerSession::local(doors) }
    }

    /// Passes queued messages to the session while it has room.
    fn read(&mut self) -> Result<(), SessionError> {
        while self.session.has_room()
            && let Some(message) = self.inbox.pop_front()
        {
            self.session.receive(message)?;
        }
        Ok(())
    }
}

impl Session for LocalSession {
    fn send(&mut self, message: WorkerMessage) {
        self.inbox.push_back(message);
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
            SessionError::Fault(fault) => session_end(&fault),
            SessionError::Replaced => Self {
                code: None,
                field: None,
                message: "the same incarnation has another session".to_owned(),
                is_transient: false,
            },
        }
    }
}

fn session_end(fault: &Fault) -> SessionEnd {
    let (code, problem) = (fault.code(), fault.problem());
    SessionEnd {
        code: Some(code),
        field: problem.field.clone(),
        message: problem.detail.clone(),
        // Transient by the same rule that a remote worker applies to gRPC codes.
        is_transient: matches!(grpc::code(code), Unavailable | DeadlineExceeded),
    }
}
