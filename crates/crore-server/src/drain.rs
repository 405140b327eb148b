//! Being told to stop: the first signal lets workers finish, the second leaves at once.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crore::Engine;
use crore_core::Span;
use crore_doors::Doors;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{Failure, Why};

/// How long answers that are under way may take when everything else is over.
const ANSWERS_FOR: Duration = Duration::from_secs(2);

/// The signals that are heard.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// Whether a terminal that is closed means to stop.
    has_terminal: bool,
}

/// What a signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// To stop; which one it was.
    Stop(&'static str),
    /// To look again at what may have changed.
    LookAgain,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            has_terminal: io::stdin().is_terminal(),
        })
    }

    /// What the next one means. HUP is what operators send to have files read again, and what a terminal
    /// sends that is closed.
    pub(crate) async fn told(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop("TERM"),
            _ = self.interrupt.recv() => Told::Stop("INT"),
            _ = self.hang_up.recv() => match self.has_terminal {
                true => Told::Stop("HUP"),
                false => Told::LookAgain,
            },
        }
    }

    /// The next one that means to stop, by its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            if let Told::Stop(signal) = self.told().await {
                return signal;
            }
        }
    }
}

/// Tells all listeners when to close.
#[derive(Debug, Clone)]
pub(crate) struct Closing(watch::Sender<bool>);

impl Closing {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    /// Ends when it is time to close.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut seen = self.0.subscribe();
        async move {
            // Who tells us is gone only when everything is.
            let _ = seen.wait_for(|is_closed| *is_closed).await;
        }
    }
}

/// Lets workers finish: nothing new is taken, whoever waits for jobs is told that there are none, and
/// reports are still heard, until no job runs or the time is over. Then the listeners close, and the engine.
///
/// Jobs that are still out stay with their workers: a lease holds over a restart, so a worker that comes
/// back in time finishes its job, and nothing is done twice. If it does not, that costs no attempt.
pub(crate) async fn drain(
    doors: &Doors,
    closing: &Closing,
    at_most: Span,
    listeners: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let engine = doors.engine();
    doors.close();
    match engine.lifecycle().idle(at_most).await {
        Ok(0) => tracing::info!("no job is running"),
        Ok(n) => tracing::warn!(
            jobs = n,
            "jobs are still running: workers elsewhere may report theirs to the next server, and those that crore \
             runs by itself are run again"
        ),
        Err(error) => tracing::error!(%error, "cannot tell whether jobs are running"),
    }
    closing.close();
    let mut listeners = std::pin::pin!(listeners);
    // Those who listen to events would never go by themselves; they are told when the engine stops.
    let open = tokio::time::timeout(ANSWERS_FOR, listeners.as_mut()).await.is_err();
    let stopped = tokio::task::spawn_blocking({
        let engine = engine.clone();
        move || engine.stop()
    });
    stopped.await??;
    if open && tokio::time::timeout(ANSWERS_FOR, listeners).await.is_err() {
        tracing::warn!("connections were still open");
    }
    Ok(())
}

/// How long callers are still told why nothing is answered any more, before a server whose store gave up
/// ends. It is over well within a second, which is what is promised.
const TOLD_FOR: Duration = Duration::from_millis(500);

/// Says that the store gave up, which is the end of the server: nothing can be read or written any more, and
/// whoever looks after it starts it again. For a moment callers, and whoever asks whether it is ready, are
/// told so.
pub(crate) async fn give_up(why: &str, signals: &mut Signals) -> anyhow::Error {
    tracing::error!(
        why,
        "the store gave up, and crore ends: nothing that was answered is lost, and nothing more is accepted; see \
         that its disk is sound and has room, and start crore again"
    );
    // Whoever does not want to wait says so.
    let _ = tokio::time::timeout(TOLD_FOR, signals.next()).await;
    Failure::new(Why::Failed, format!("the store gave up: {why}")).into()
}

/// How long the store may take to close when nobody wants to wait any more.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

/// Leaves at once, when told a second time. Everything that was answered is kept anyway; a store that can be
/// closed in a moment also knows which jobs are out, and does not hand them to others.
pub(crate) async fn leave(signal: &str, engine: Engine) -> ! {
    tracing::warn!(signal, "told again to stop: leaving now");
    let stopped = tokio::task::spawn_blocking(move || engine.stop());
    // Whether it could or not, we leave.
    let _ = tokio::time::timeout(LEAVE_WITHIN, stopped).await;
    std::process::exit(1);
}
