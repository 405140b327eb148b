//! One connection of a worker, from its hello to its end.
//!
//! The session is polled by its connection, or by the worker itself in the same process. Everything that is ready
//! goes into one message, so that a busy session wakes once for many jobs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crore::Error;
use crore_api::budget::ByteMeter;
use crore_api::{AdmittedCall, Fault, Grant};
use crore_core::{Code, Invalid};
use crore_wire::worker::{Hello, ServerMessage, WorkerMessage};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::BoxFuture;
use super::active_session::ActiveSession;
use super::handshake::{CompletedHandshake, Profile, register_worker};
use super::in_flight::InFlight;
use crate::Doors;

/// Timeout for the hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a session ends.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The worker broke a rule, or the engine failed.
    Fault(Fault),
    /// Another connection of the same incarnation has replaced it.
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
pub(super) enum PollingMode {
    /// A connection, which does not poll while its peer does not read.
    ByConnection,
    /// A worker in this process, whenever there is something to do.
    Always,
}

/// One connection of a worker. Its owner passes messages in while there is [room](Self::has_room), and calls
/// [`Self::poll_message`] for outgoing ones. Dropping it closes the connection: jobs that the worker holds go to other
/// workers, unless it reconnects within the grace period.
pub(crate) struct WorkerSession {
    doors: Doors,
    grant: Grant,
    polling_mode: PollingMode,
    /// `None`: a worker in this process, whose messages are not charged.
    call: Option<Arc<AdmittedCall>>,
    /// The charge for the names in its hello.
    names: Option<ByteMeter>,
    stage: SessionStage,
    /// The worker sends no more messages.
    is_input_closed: bool,
}

enum SessionStage {
    /// Until the hello, or its timeout.
    AwaitingHello(Pin<Box<Sleep>>),
    Registering(BoxFuture<Result<CompletedHandshake, Error>>),
    Active(Box<ActiveSession>),
    Ended,
}

impl WorkerSession {
    /// A session that is polled by its connection.
    pub(crate) fn new(doors: Doors, grant: Grant, call: Option<Arc<AdmittedCall>>) -> Self {
        let mut session = Self::with_mode(doors, grant, PollingMode::ByConnection);
        session.call = call;
        session
    }

    /// A session of a worker in this process, which polls it whenever there is something to do.
    pub(crate) fn local(doors: Doors) -> Self {
        Self::with_mode(doors, Grant::full(), PollingMode::Always)
    }

    fn with_mode(doors: Doors, grant: Grant, mode: PollingMode) -> Self {
        let timeout = Box::pin(sleep_until(Instant::now() + HELLO_TIMEOUT));
        Self {
            doors,
            grant,
            polling_mode: mode,
            call: None,
            names: None,
            stage: SessionStage::AwaitingHello(timeout),
            is_input_closed: false,
        }
    }

    /// Whether a message may be passed in. The polling task is woken when there is room again.
    pub(crate) fn has_room(&self) -> bool {
        match &self.stage {
            SessionStage::AwaitingHello(_) => true,
            SessionStage::Active(active) => active.has_room(),
            SessionStage::Registering(_) | SessionStage::Ended => false,
        }
    }

    /// Whether the worker's hello is still to come.
    pub(crate) const fn awaits_hello(&self) -> bool {
        matches!(self.stage, SessionStage::AwaitingHello(_))
    }

    /// Processes a message from the worker. An error ends the session.
    pub(crate) fn receive(&mut self, message: WorkerMessage) -> Result<(), SessionError> {
        let received = match &mut self.stage {
            SessionStage::AwaitingHello(_) => self.receive_hello(message),
            SessionStage::Active(active) => active.receive(message).map_err(Into::into),
            SessionStage::Registering(_) | SessionStage::Ended => Ok(()),
        };
        if received.is_err() {
            self.end();
        }
        received
    }

    fn receive_hello(&mut self, message: WorkerMessage) -> Result<(), SessionError> {
        let hello = message.hello.ok_or_else(no_hello)?;
        if let Some(call) = &self.call {
            let mut meter = call.meter();
            meter.set(hello_bytes(&hello))?;
            self.names = Some(meter);
        }
        let profile = Profile::check(hello, &self.grant);
        let profile = profile.map_err(|invalid| invalid.inside("hello"))?;
        let registering = register_worker(self.doors.clone(), self.grant.clone(), profile);
        self.stage = SessionStage::Registering(Box::pin(registering));
        Ok(())
    }

    /// Closes the input: the worker sends no more messages. The session ends after the responses to its reports.
    pub(crate) fn close_input(&mut self) {
        self.is_input_closed = true;
    }

    /// The next message to the worker: everything that is ready. `None`, or an error: the session is over.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerMessage, SessionError>>> {
        let polled = match &mut self.stage {
            SessionStage::Ended => return Poll::Ready(None),
            SessionStage::AwaitingHello(timeout) => match timeout.as_mut().poll(context) {
                Poll::Ready(()) => Err(Fault::new(Code::TooSlow, "no hello received").into()),
                Poll::Pending if self.is_input_closed => Err(no_hello().into()),
                Poll::Pending => return Poll::Pending,
            },
            SessionStage::Registering(handshake) => {
                match ready!(handshake.as_mut().poll(context)) {
                    Ok(completed) => Ok(self.begin(completed)),
                    Err(error) => Err(error.into()),
                }
            }
            SessionStage::Active(active) => match active.poll_message(context) {
                Poll::Ready(polled) => polled,
                Poll::Pending if self.is_input_closed && active.has_no_pending_reports() => {
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

    fn begin(&mut self, completed: CompletedHandshake) -> ServerMessage {
        let CompletedHandshake { profile, incarnation, response } = completed;
        if self.polling_mode == PollingMode::Always {
            incarnation.presence().record_local();
        }
        let reports = InFlight::new(self.call.as_ref().map(|call| call.meter()));
        let (caller, mode) = ((self.doors.clone(), self.grant.clone()), self.polling_mode);
        let active = ActiveSession::new(caller, mode, &profile, incarnation, reports);
        self.stage = SessionStage::Active(Box::new(active));
        response
    }

    /// Ends the session at once, as dropping it does.
    pub(crate) fn end(&mut self) {
        let stage = std::mem::replace(&mut self.stage, SessionStage::Ended);
        self.names = None;
        let Ok(runtime) = Handle::try_current() else { return };
        match stage {
            SessionStage::AwaitingHello(_) | SessionStage::Ended => {}
            SessionStage::Registering(handshake) => {
                let doors = self.doors.clone();
                drop(runtime.spawn(async move {
                    if let Ok(CompletedHandshake { incarnation, .. }) = handshake.await {
                        doors.sessions().disconnect(doors.engine().clone(), incarnation);
                    }
                }));
            }
            SessionStage::Active(active) => drop(runtime.spawn(active.close())),
        }
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        self.end();
    }
}

/// Approximate memory of the names in a hello, which are kept twice while the session lasts.
fn hello_bytes(hello: &Hello) -> usize {
    const NAME_BYTES: usize = 64;
    let Hello { queues, kinds, runners, name, versions, .. } = hello;
    let names = [queues, kinds, runners].into_iter().flatten().chain([name]);
    let names = names.chain(versions.keys());
    names.map(|name| 2 * (name.len() + NAME_BYTES)).sum()
}

fn no_hello() -> Invalid {
    Invalid::new(Code::Malformed, "hello", "is required")
}
