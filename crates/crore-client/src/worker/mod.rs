//! A worker: handlers by kind, and the stream that brings them jobs.

mod delivery;
mod running;
mod session;

use std::collections::HashMap;
use std::fmt::Display;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crore_wire::grpc::v1;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

pub use delivery::{Delivery, Outcome, Reply};

use crate::backoff::Backoff;
use crate::{Client, Error};
use running::Running;

/// How long running jobs may take when a worker stops.
const GRACE: Duration = Duration::from_secs(30);

type Handling = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Handler = Arc<dyn Fn(Delivery) -> Handling + Send + Sync>;

/// Runs jobs of a server, as many at a time as it has slots.
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    client: Client,
    hello: v1::Hello,
    handlers: HashMap<String, Handler>,
    grace: Duration,
    stop: Stop,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("hello", &self.hello).finish_non_exhaustive()
    }
}

/// Stops a worker. Cloning gives another handle to the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// From now on the worker takes nothing new, and ends when its jobs have, or when the time for that is
    /// over: what still runs then is handed back, at no cost in attempts.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

impl Worker {
    /// A worker with one slot, a fresh incarnation, and the queues that are named after its kinds.
    pub fn new(client: &Client) -> Self {
        let incarnation =
            format!("{:016x}{:016x}", getrandom::u64().unwrap_or_default(), std::process::id());
        let hello = v1::Hello { slots: 1, incarnation, ..v1::Hello::default() };
        let (client, stop) = (client.clone(), Stop::default());
        Self { client, hello, handlers: HashMap::new(), grace: GRACE, stop }
    }

    /// Takes jobs from this queue; from those named after its kinds, if none is said.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.hello.queues.push(queue.into());
        self
    }

    /// Runs so many jobs at a time.
    pub fn slots(mut self, n: u32) -> Self {
        self.hello.slots = n;
        self
    }

    /// What people call it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.hello.name = name.into();
        self
    }

    /// The version of its program.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.hello.version = version.into();
        self
    }

    /// The first queue as long as it has any jobs, then the second, and so on.
    pub fn strict(mut self) -> Self {
        self.hello.strict = true;
        self
    }

    /// How long running jobs may take when the worker stops; 30 s unless told otherwise.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Runs jobs of a kind by a function. `Ok` means done, with what [`Reply`] makes of it; `Err`, that the
    /// job is tried again as its policy says.
    pub fn handle<F, R, T, E>(mut self, kind: impl Into<String>, run: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: Reply,
        E: Display,
    {
        let handler = move |delivery| -> Handling {
            let running = run(delivery);
            Box::pin(async move { Outcome::of(running.await) })
        };
        self.handlers.insert(kind.into(), Arc::new(handler));
        self
    }

    /// The same by a service, with whatever layers are around it.
    pub fn serve<S>(mut self, kind: impl Into<String>, service: S) -> Self
    where
        S: Service<Delivery, Error: Display, Future: Send> + Clone + Send + Sync + 'static,
        S::Response: Reply,
    {
        let handler = move |delivery| -> Handling {
            let service = service.clone();
            Box::pin(async move { Outcome::of(service.oneshot(delivery).await) })
        };
        self.handlers.insert(kind.into(), Arc::new(handler));
        self
    }

    /// Stops it from elsewhere.
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Runs until it is stopped. A connection that breaks is made anew, and the jobs that it was at are
    /// kept; only a server that refuses the worker ends it.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(pending()).await
    }

    /// The same, until `shutdown` comes.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.hello.kinds = self.handlers.keys().cloned().collect();
        if self.hello.queues.is_empty() {
            self.hello.queues = self.hello.kinds.clone();
        }
        let stop = self.stop.clone();
        tokio::select! {
            ended = self.run_here() => ended,
            never = async { shutdown.await; stop.stop(); pending::<std::convert::Infallible>().await } => {
                match never {}
            }
        }
    }

    async fn run_here(self) -> Result<(), Error> {
        let mut backoff = Backoff::new();
        let mut running = Running::new(self.handlers);
        loop {
            let hello = v1::Hello { held: running.held(), ..self.hello.clone() };
            let ended = session::run(
                self.client.work(),
                hello,
                &mut running,
                (&self.stop.0, self.grace),
                &mut backoff,
            );
            match ended.await {
                Ok(()) => return Ok(()),
                Err(Error::Refused(problem)) => return Err(Error::Refused(problem)),
                Err(error) if self.stop.0.is_cancelled() && running.is_idle() => {
                    tracing::debug!(%error, "the connection broke while the worker stopped");
                    return Ok(());
                }
                Err(error) => {
                    tracing::warn!(%error, "the connection broke; trying again");
                    tokio::time::sleep_until(tokio::time::Instant::now() + backoff.next()).await;
                }
            }
        }
    }
}
