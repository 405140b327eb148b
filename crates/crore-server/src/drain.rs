//! Shutdown: the first stop signal drains, the second exits immediately.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crore::Engine;
use crore_core::Span;
use crore_doors::Doors;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{CliError, FailureCode};

/// Time for responses in flight and open event streams to end during shutdown.
const RESPONSE_GRACE: Duration = Duration::from_secs(2);

/// Signal handlers of the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// On a terminal, SIGHUP means that it was closed, so the process stops.
    has_terminal: bool,
}

/// Action requested by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// Stop; the name of the signal.
    Stop(&'static str),
    /// Reload TLS certificates.
    Reload,
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

    /// Waits for the next signal. SIGHUP asks for a reload, or for a stop if standard input is a terminal, which
    /// sends it when it closes.
    pub(crate) async fn next_action(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop("TERM"),
            _ = self.interrupt.recv() => SignalAction::Stop("INT"),
            _ = self.hang_up.recv() => match self.has_terminal {
                true => SignalAction::Stop("HUP"),
                false => SignalAction::Reload,
            },
        }
    }

    /// Waits for the next stop signal and returns its name.
    pub(crate) async fn next_stop(&mut self) -> &'static str {
        loop {
            if let SignalAction::Stop(signal) = self.next_action().await {
                return signal;
            }
        }
    }
}

/// Shutdown flag shared by all listeners.
#[derive(Debug, Clone)]
pub(crate) struct ShutdownFlag(watch::Sender<bool>);

impl ShutdownFlag {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }

    /// Completes when the flag is set.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut seen = self.0.subscribe();
        async move {
            // It fails only when every sender is gone, at the end of the process.
            let _ = seen.wait_for(|is_closed| *is_closed).await;
        }
    }
}

/// Drains the server: refuses new work, ends waiting fetches with an empty response and still accepts reports, until
/// no job is running or the timeout is over. Then it closes the listeners and the engine.
///
/// Jobs that are still running stay leased to their workers. A lease outlives a restart: a worker that reconnects in
/// time can still finish its job, which then does not run twice. Otherwise the lease expires, which does not count as
/// an attempt.
pub(crate) async fn drain(
    doors: &Doors,
    closing: &ShutdownFlag,
    at_most: Span,
    listeners: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let engine = doors.engine();
    doors.close();
    match engine.lifecycle().idle(at_most).await {
        Ok(0) => tracing::info!("drained: no job is running"),
        Ok(n) => tracing::warn!(
            jobs = n,
            "drain timeout: jobs are still running; remote workers may report them after a restart, and jobs of handlers \
             in this process are run again"
        ),
        Err(error) => tracing::error!(%error, "cannot count running jobs"),
    }
    closing.set();
    let mut listeners = std::pin::pin!(listeners);
    // Event streams never end by themselves; stopping the engine ends them.
    let open = tokio::time::timeout(RESPONSE_GRACE, listeners.as_mut()).await.is_err();
    let stopped = tokio::task::spawn_blocking({
        let engine = engine.clone();
        move || engine.stop()
    });
    stopped.await??;
    if open && tokio::time::timeout(RESPONSE_GRACE, listeners).await.is_err() {
        tracing::warn!("closing open connections");
    }
    Ok(())
}

/// Grace period in which callers and readiness probes still get an error response after the store has failed. The
/// server promises to exit within a second.
const FAILURE_GRACE: Duration = Duration::from_millis(500);

/// Logs that the store has failed and waits out the grace period. The server then exits with an error, so that its
/// supervisor restarts it: the store can neither be read nor written any more.
pub(crate) async fn store_failed(why: &str, signals: &mut Signals) -> anyhow::Error {
    tracing::error!(
        why,
        "the store has failed and the server exits; acknowledged writes are not lost; check the disk and its free \
         space, then restart crore"
    );
    // A stop signal ends the grace period early.
    let _ = tokio::time::timeout(FAILURE_GRACE, signals.next_stop()).await;
    CliError::new(FailureCode::Failed, format!("the store has failed: {why}")).into()
}

/// Time for the store to close after a second signal.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Exits immediately after a second signal. Acknowledged writes are durable in any case; a store that can be closed
/// in time also records which jobs are leased, so that they are not delivered to others after the restart.
pub(crate) async fn exit_now(signal: &str, engine: Engine) -> ! {
    tracing::warn!(signal, "second signal: exiting immediately");
    let stopped = tokio::task::spawn_blocking(move || engine.stop());
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, stopped).await;
    std::process::exit(1);
}
