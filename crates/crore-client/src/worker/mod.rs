//! A worker: handlers by kind, and the stream that brings them jobs.

mod delivery;
mod message;
mod running;
mod session;
mod way;

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

pub use delivery::{Delivery, Outcome, Reply};
pub use way::Way;

use crate::Error;
use crate::backoff::Backoff;
use running::Running;
use session::{Stopping, Times};

/// How long running jobs may take when a worker stops.
const GRACE: Duration = Duration::from_secs(30);

type Handling = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Handler = Arc<dyn Fn(Delivery) -> Handling + Send + Sync>;

/// Runs jobs of a server, as many at a time as it has slots.
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    way: Way,
    hello: Hello,
    handlers: HashMap<String, Handler>,
    /// What runs every kind.
    any: Option<Handler>,
    times: Times,
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
    pub fn new(way: impl Into<Way>) -> Self {
        let incarnation =
            format!("{:016x}{:016x}", getrandom::u64().unwrap_or_default(), std::process::id());
        let hello = Hello { slots: 1, incarnation, ..Hello::default() };
        let (way, stop) = (way.into(), Stop::default());
        let times = Times { grace: GRACE, ending: Duration::ZERO };
        Self { way, hello, handlers: HashMap::new(), any: None, times, stop }
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
        self.times.grace = grace;
        self
    }

    /// How long it may then take to end, once it was asked to by its token; not at all, unless told otherwise. What
    /// has not ended by then is handed back all the same.
    pub fn ending(mut self, ending: Duration) -> Self {
        self.times.ending = ending;
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

    /// Runs every job of its queues whose kind has a handler on the server of one of these runners, whichever these are
    /// at the time; what the handler says comes [with the job](crore_wire::worker::Delivered::handler). This is how runners get their
    /// jobs: there are no kinds besides.
    pub fn run_handlers<F, R>(mut self, runners: Vec<String>, run: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.hello.runs_handlers = true;
        self.hello.runners = runners;
        self.any = Some(Arc::new(move |delivery| -> Handling { Box::pin(run(delivery)) }));
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
        if self.any.is_none() {
            self.hello.kinds = self.handlers.keys().cloned().collect();
        }
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
        let mut running = Running::new(self.handlers, self.any);
        let mut stopping = Stopping::new(self.times);
        loop {
            let hello = Hello { held: running.held(), ..self.hello.clone() };
            let ended = session::run(
                &self.way,
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
                if running.is_idle() {
                    tracing::debug!(%error, "the connection broke while the worker stopped");
                    return Ok(());
                }
                if stopping.is_over() {
                    // Nobody is there to hand them back to; their leases end.
                    running.stop_all();
                    return Err(error);
                }
            }
            tracing::warn!(%error, "the connection broke; trying again");
            let again = Instant::now() + backoff.next();
            tokio::select! {
                () = sleep_until(again) => {}
                () = self.stop.0.cancelled(), if !stopping.has_begun() => {}
                () = stopping.over() => {}
            }
        }
    }
}
