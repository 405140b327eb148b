//! One connection of a worker, from its hello to its end.
//!
//! The session is polled by its connection, or by the worker itself in the same process: everything that is ready goes
//! into one message, so that a busy session wakes once for many jobs.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crore::Error;
use crore_api::Fault;
use crore_core::{Code, Invalid};
use crore_wire::worker::{ServerMessage, WorkerMessage};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::BoxFuture;
use super::handshake::{Entered, Profile, enter};
use super::working::Working;
use crate::Doors;

/// Timeout for the hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a session ends.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The worker broke a rule, or the engine failed.
    Fault(Fault),
    /// Another connection of the same incarnation has taken over.
    Replaced,
}

impl From<Fault> for SessionError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<Invalid> for SessionError {
    fn from(invalid: Invalid) -> Self {
        Self::Fault(invalid.into())
    }
}

/// How a session is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    /// By a connection, and not while its peer does not read.
    ByConnection,
    /// By a worker in this process, whenever there is something to do.
    Always,
}

/// One connection of a worker. Its owner passes messages in while there is [room](Self::has_room), and [polls](
/// Self::poll_message) for those that go out. Dropping it is the end of the connection: jobs that the worker holds go to
/// others, unless it reconnects within the grace period.
pub(crate) struct WorkerSession {
    doors: Doors,
    polled: Polled,
    stage: Stage,
    /// The worker will say nothing more.
    is_input_closed: bool,
}

enum Stage {
    /// Until the hello, or its timeout.
    AwaitingHello(Pin<Box<Sleep>>),
    Entering(BoxFuture<Result<Entered, Error>>),
    Working(Box<Working>),
    Ended,
}

impl WorkerSession {
    /// A session that is polled by its connection.
    pub(crate) fn new(doors: Doors) -> Self {
        Self::polled(doors, Polled::ByConnection)
    }

    /// A session of a worker in this process, which polls it whenever there is something to do.
    pub(crate) fn local(doors: Doors) -> Self {
        Self::polled(doors, Polled::Always)
    }

    fn polled(doors: Doors, polled: Polled) -> Self {
        let timeout = Box::pin(sleep_until(Instant::now() + HELLO_TIMEOUT));
        Self { doors, polled, stage: Stage::AwaitingHello(timeout), is_input_closed: false }
    }

    /// Whether a message may be passed in. When there is room again, the task that polls is woken.
    pub(crate) fn has_room(&self) -> bool {
        match &self.stage {
            Stage::AwaitingHello(_) => true,
            Stage::Working(working) => working.has_room(),
            Stage::Entering(_) | Stage::Ended => false,
        }
    }

    /// Whether the worker has yet to say hello.
    pub(crate) const fn awaits_hello(&self) -> bool {
        matches!(self.stage, Stage::AwaitingHello(_))
    }

    /// Takes a message of the worker. An error ends the session.
    pub(crate) fn receive(&mut self, message: WorkerMessage) -> Result<(), SessionError> {
        let received = match &mut self.stage {
            Stage::AwaitingHello(_) => self.greet(message),
            Stage::Working(working) => working.receive(message).map_err(Into::into),
            Stage::Entering(_) | Stage::Ended => Ok(()),
        };
        if received.is_err() {
            self.end();
        }
        received
    }

    fn greet(&mut self, message: WorkerMessage) -> Result<(), SessionError> {
        let hello = message.hello.ok_or_else(no_hello)?;
        let profile = Profile::check(hello).map_err(|invalid| invalid.inside("hello"))?;
        self.stage = Stage::Entering(Box::pin(enter(self.doors.clone(), profile)));
        Ok(())
    }

    /// The worker will say nothing more. The session ends when its reports are answered.
    pub(crate) fn close_input(&mut self) {
        self.is_input_closed = true;
    }

    /// The next message to the worker: everything that is ready. `None`, or an error: the session is over.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerMessage, SessionError>>> {
        let polled = match &mut self.stage {
            Stage::Ended => return Poll::Ready(None),
            Stage::AwaitingHello(timeout) => match timeout.as_mut().poll(context) {
                Poll::Ready(()) => Err(Fault::new(Code::TooSlow, "no hello came").into()),
                Poll::Pending if self.is_input_closed => Err(no_hello().into()),
                Poll::Pending => return Poll::Pending,
            },
            Stage::Entering(entering) => match ready!(entering.as_mut().poll(context)) {
                Ok(entered) => Ok(self.begin(entered)),
                Err(error) => Err(error.into()),
            },
            Stage::Working(working) => match working.poll_message(context) {
                Poll::Ready(polled) => polled,
                Poll::Pending if self.is_input_closed && working.is_settled() => {
                    self.end();
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            },
        };
        if polled.is_err() {
            self.end();
        }
        Poll::Ready(Some(polled))
    }

    fn begin(&mut self, entered: Entered) -> ServerMessage {
        let Entered { profile, incarnation, answer } = entered;
        let working = Working::new(self.doors.clone(), self.polled, &profile, incarnation);
        self.stage = Stage::Working(Box::new(working));
        answer
    }

    /// Ends the session at once, as to drop it does.
    pub(crate) fn end(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        let Ok(runtime) = Handle::try_current() else { return };
        match stage {
            Stage::AwaitingHello(_) | Stage::Ended => {}
            Stage::Entering(entering) => {
                let doors = self.doors.clone();
                drop(runtime.spawn(async move {
                    if let Ok(Entered { incarnation, .. }) = entering.await {
                        doors.sessions().leave(doors.engine().clone(), incarnation);
                    }
                }));
            }
            Stage::Working(working) => drop(runtime.spawn(working.leave())),
        }
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        self.end();
    }
}

fn no_hello() -> Invalid {
    Invalid::new(Code::Malformed, "hello", "has to be said")
}
