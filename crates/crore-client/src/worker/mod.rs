//! The worker: runs handlers for jobs that the server sends.

mod delivery;
mod message;
mod ready;
mod running;
mod session;
mod transport;

use std::collections::HashMap;
use std::fmt::Display;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crore_wire::worker::Hello;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

pub use delivery::{Delivery, IntoOutcome, Outcome};
pub use transport::WorkerTransport;

use crate::Error;
use crate::backoff::ReconnectBackoff;
use ready::SlotQueue;
use running::ActiveDeliveries;
use session::{StopTimes, Stopping};

/// Default grace period for running jobs when a worker stops.
const GRACE: Duration = Duration::from_secs(30);

type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type HandlerFn = Arc<dyn Fn(Delivery) -> HandlerFuture + Send + Sync>;

/// Runs jobs of a server, up to its number of slots at a time.
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    transport: WorkerTransport,
    hello: Hello,
    handlers: HashMap<String, HandlerFn>,
    /// The handler of every kind, instead of `handlers`.
    any_kind: Option<HandlerFn>,
    /// Maximum number of jobs kept ready beyond the slots.
    max_ready: u32,
    times: StopTimes,
    stop: StopHandle,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("hello", &self.hello).finish_non_exhaustive()
    }
}

/// Stops a worker. Clones stop the same one.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(CancellationToken);

impl StopHandle {
    /// Stops the worker gracefully: it takes no new jobs, and returns when its running jobs have ended. Jobs that
    /// still run after the grace period are handed back, at no cost in attempts.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

impl Worker {
    /// A worker with one slot and a random incarnation. Its queues are those named like its kinds, unless
    /// [`queue`](Self::queue) sets others.
    pub fn new(transport: impl Into<WorkerTransport>) -> Self {
        let incarnation =
            format!("{:016x}{:016x}", getrandom::u64().unwrap_or_default(), std::process::id());
        let hello = Hello { slots: 1, incarnation, ..Hello::default() };
        let (transport, stop) = (transport.into(), StopHandle::default());
        let times = StopTimes { grace: GRACE, cancel_grace: Duration::ZERO };
        let handlers = HashMap::new();
        Self { transport, hello, handlers, any_kind: None, max_ready: 0, times, stop }
    }

    /// Adds a queue to take jobs from. Default: the queues named like its kinds.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.hello.queues.push(queue.into());
        self
    }

    /// Sets how many jobs run concurrently.
    pub fn slots(mut self, n: u32) -> Self {
        self.hello.slots = n;
        self
    }

    /// Lets the worker fetch up to `n` jobs beyond its slots: as many as it can run in five milliseconds. Short jobs
    /// are then fetched and reported in batches. A job that waits longer than 20 ms for a slot is returned, without
    /// using up an attempt. Default: 0.
    pub fn keep_ready(mut self, n: u32) -> Self {
        self.max_ready = n;
        self
    }

    /// Sets the display name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.hello.name = name.into();
        self
    }

    /// Sets the version of the program, for display.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.hello.version = version.into();
        self
    }

    /// Names the version of a kind that the worker runs: one to three numbers, such as `2.3.1`. Without it, the worker gets
    /// no jobs of the kind that [require a version](crate::Job::worker_version).
    pub fn kind_version(mut self, kind: impl Into<String>, version: impl Into<String>) -> Self {
        self.hello.versions.insert(kind.into(), version.into());
        self
    }

    /// Serves the queues in strict order: a queue is served only while those before it are empty.
    pub fn strict(mut self) -> Self {
        self.hello.strict = true;
        self
    }

    /// Sets the grace period for running jobs when the worker stops. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.times.grace = grace;
        self
    }

    /// Sets how long a job may take to end after the grace period, when its cancellation token has been cancelled.
    /// Default: zero. Jobs that still run then are handed back.
    pub fn cancel_grace(mut self, ending: Duration) -> Self {
        self.times.cancel_grace = ending;
        self
    }

    /// Runs jobs of a kind with a function. `Ok` ends the job as [`IntoOutcome`] defines; `Err` makes the attempt fail,
    /// and the job is retried according to its policy.
    pub fn handle<F, R, T, E>(mut self, kind: impl Into<String>, run: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: IntoOutcome,
        E: Display,
    {
        let handler = move |delivery| -> HandlerFuture {
            let running = run(delivery);
            Box::pin(async move { Outcome::of(running.await) })
        };
        self.handlers.insert(kind.into(), Arc::new(handler));
        self
    }

    /// Runs jobs of a kind with a tower service, including its layers.
    pub fn serve<S>(mut self, kind: impl Into<String>, service: S) -> Self
    where
        S: Service<Delivery, Error: Display, Future: Send> + Clone + Send + Sync + 'static,
        S::Response: IntoOutcome,
    {
        let handler = move |delivery| -> HandlerFuture {
            let service = service.clone();
            Box::pin(async move { Outcome::of(service.oneshot(delivery).await) })
        };
        self.handlers.insert(kind.into(), Arc::new(handler));
        self
    }

    /// Runs every job of its queues whose kind has a handler of one of these runners on the server; changes of
    /// handlers apply at once. The handler's definition comes [with the
    /// job](crore_wire::worker::JobDelivery::handler). Runner hosts use this instead of naming kinds.
    pub fn run_handlers<F, R>(mut self, runners: Vec<String>, run: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.hello.runs_handlers = true;
        self.hello.runners = runners;
        self.any_kind =
            Some(Arc::new(move |delivery| -> HandlerFuture { Box::pin(run(delivery)) }));
        self
    }

    /// A handle that stops the worker.
    pub fn stopper(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Runs until the worker is stopped. After a lost connection it reconnects and keeps its running jobs; it fails
    /// only if the server refuses the worker.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(pending()).await
    }

    /// Like [`run`](Self::run), and stops the worker when `shutdown` completes.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        if self.any_kind.is_none() {
            self.hello.kinds = self.handlers.keys().cloned().collect();
        }
        if self.hello.queues.is_empty() {
            self.hello.queues = self.hello.kinds.clone();
        }
        let stop = self.stop.clone();
        tokio::select! {
            ended = self.run_sessions() => ended,
            never = async { shutdown.await; stop.stop(); pending::<std::convert::Infallible>().await } => {
                match never {}
            }
        }
    }

    async fn run_sessions(self) -> Result<(), Error> {
        let mut backoff = ReconnectBackoff::new();
        let ready = SlotQueue::new(self.hello.slots, self.max_ready);
        let mut running = ActiveDeliveries::new(self.handlers, self.any_kind, ready);
        let mut stopping = Stopping::new(self.times);
        loop {
            let slots = running.ready.announced();
            let hello = Hello { held: running.held(), slots, ..self.hello.clone() };
            let ended = session::run(
                &self.transport,
                hello,
                &mut running,
                (&self.stop.0, &mut stopping),
                &mut backoff,
            );
            let error = match ended.await {
                Ok(()) => return Ok(()),
                Err(Error::Refused(problem)) => return Err(Error::Refused(problem)),
                Err(error) => error,
            };
            if self.stop.0.is_cancelled() {
                stopping.begin();
                running.hand_back_waiting();
                if running.is_idle() {
                    tracing::debug!(%error, "connection lost while stopping");
                    return Ok(());
                }
                if stopping.is_over() {
                    // Without a connection no job can be returned; the server delivers it again when its lease expires.
                    running.stop_all();
                    return Err(error);
                }
            }
            tracing::warn!(%error, "connection lost; reconnecting");
            let retry_at = Instant::now() + backoff.next();
            tokio::select! {
                () = sleep_until(retry_at) => {}
                () = self.stop.0.cancelled(), if !stopping.has_begun() => {}
                () = stopping.over() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
