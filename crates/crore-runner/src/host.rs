//! The host: takes jobs that have a handler from a server and runs them.
//!
//! It is an ordinary worker on a worker's gRPC stream, in the server's own process or across the
//! network. Each delivery carries its handler, so a host caches no handlers and none can be stale.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crore_client::{Delivery, Error, JobHandler, Outcome, Worker, WorkerTransport};
use crore_core::handler::join_items;
use crore_core::{Name, Payload};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::{RunContext, RunMessage};
use crate::run::RunSpec;
use crate::runner::{EncodedBytes, FailureClass, Output, RunFailure, Task};
use crate::runners::Runners;

/// Maximum number of jobs that a channel keeps ready while its jobs are short. A channel with more slots than this
/// claims and reports jobs in groups anyway.
const MAX_READY: u32 = 128;

/// A host that has not started yet.
#[derive(Debug)]
#[must_use = "a host does nothing until `run` is awaited"]
pub struct Host {
    transport: WorkerTransport,
    runners: Arc<Runners>,
    channels: BTreeMap<Name, u32>,
    name: String,
    grace: Duration,
    cancel_grace: Duration,
}

impl Host {
    /// A host that runs the jobs of a server with these runners.
    pub fn new(way: impl Into<WorkerTransport>, runners: Arc<Runners>) -> Self {
        let (way, channels) = (way.into(), BTreeMap::new());
        let (grace, ending) = (Duration::from_secs(15), Duration::from_secs(10));
        Self { transport: way, runners, channels, name: String::new(), grace, cancel_grace: ending }
    }

    /// Serves a channel: up to `parallel` jobs of this queue at a time.
    pub fn channel(mut self, queue: Name, parallel: u32) -> Self {
        self.channels.insert(queue, parallel);
        self
    }

    /// Sets the display name. Each channel's worker appends its queue: `name/queue`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the time limit of a graceful shutdown. For its last ten seconds, or its second half if
    /// it is shorter than twenty, jobs that still run are asked to stop; the host then hands them
    /// back.
    pub fn stop_within(mut self, all: Duration) -> Self {
        self.cancel_grace = (all / 2).min(Duration::from_secs(10));
        self.grace = all.saturating_sub(self.cancel_grace);
        self
    }

    /// Runs jobs until `shutdown` resolves. Then takes no more, and returns when running jobs have
    /// ended.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let mut preparation = JoinSet::new();
        let runners = Arc::clone(&self.runners);
        preparation.spawn(async move { runners.prepare().await });
        let mut channels = JoinSet::new();
        for (queue, parallel) in self.channels {
            let runners = Arc::clone(&self.runners);
            let worker = Worker::new(self.transport.clone())
                .queue(queue.as_str())
                .slots(parallel)
                .keep_ready(if parallel <= MAX_READY { MAX_READY } else { 0 })
                .version(env!("CARGO_PKG_VERSION"))
                .grace(self.grace)
                .cancel_grace(self.cancel_grace)
                .run_handlers(self.runners.usable(), move |delivery| {
                    run(Arc::clone(&runners), delivery, parallel)
                });
            let worker = match self.name.as_str() {
                "" => worker,
                name => worker.name(format!("{name}/{queue}")),
            };
            channels.spawn(worker.run_until(stop.clone().cancelled_owned()));
        }
        let ended = async {
            while let Some(ended) = channels.join_next().await {
                // The panic of a task has been reported by the panic hook.
                ended.unwrap_or(Ok(()))?;
            }
            Ok(())
        };
        let on_shutdown = async {
            shutdown.await;
            stop.cancel();
            std::future::pending().await
        };
        tokio::select! {
            ended = ended => ended,
            never = on_shutdown => never,
        }
    }
}

/// Runs one job and reports its outcome.
async fn run(runners: Arc<Runners>, delivery: Delivery, parallel: u32) -> Outcome {
    let Some(handler) = &delivery.job().handler else {
        // The handler was removed after the claim. There may be a new one at the next delivery.
        return Outcome::snooze(Duration::from_secs(1));
    };
    let sender = delivery.clone();
    let context = RunContext::new(delivery.cancel().clone(), move |message| match message {
        RunMessage::Line(text) => sender.line(text),
        RunMessage::Progress(percent, text) => sender.progress(percent, text),
    });
    match run_handler(&runners, handler, &delivery, parallel, &context).await {
        Ok(output) => succeeded(&output),
        Err(failure) if failure.class == FailureClass::Stopped => stopped(&delivery),
        Err(failure) => failed(failure),
    }
}

/// Runs a job with its handler.
async fn run_handler(
    runners: &Runners,
    JobHandler { handler, pooled }: &JobHandler,
    delivery: &Delivery,
    parallel: u32,
    context: &RunContext,
) -> Result<Output, RunFailure> {
    let settings = handler
        .settings()
        .map_err(|error| RunFailure::fatal(format!("the settings are not JSON: {error}")))?;
    let spec = RunSpec {
        revision: handler.revision(),
        runner: handler.runner(),
        settings,
        pool: NonZeroUsize::new(parallel as usize).filter(|_| *pooled),
    };
    runners.run(spec, &task(delivery), context).await
}

fn task(delivery: &Delivery) -> Task {
    let job = delivery.job();
    Task {
        store: Arc::clone(delivery.store()),
        job: job.id,
        delivery: job.delivery,
        kind: job.kind.clone(),
        attempt: job.attempt,
        pushed_at: job.pushed_at,
        payload: EncodedBytes { encoding: job.encoding, bytes: job.payload.clone() },
        timeout: job.timeout,
        trace: job.trace.as_deref().map(Into::into),
    }
}

/// The outcome of a run: one item is the result itself, several become a list.
fn succeeded(output: &Output) -> Outcome {
    match &output.items[..] {
        [] => Outcome::done(),
        [item] => Outcome::result(item.encoding, &*item.bytes),
        items => {
            let items: Vec<&[u8]> = items.iter().map(|item| &*item.bytes).collect();
            let payload = join_items(&items);
            Outcome::result(payload.encoding, payload.bytes)
        }
    }
}

/// The outcome of a stopped run: a failure if its deadline has passed. Any other run is handed
/// back, which ends a cancelled job.
fn stopped(delivery: &Delivery) -> Outcome {
    let is_late =
        delivery.deadline().is_some_and(|deadline| deadline <= tokio::time::Instant::now());
    if is_late { failed(RunFailure::temporary("timed out")) } else { Outcome::interrupted() }
}

fn failed(failure: RunFailure) -> Outcome {
    let mut detail = failure.detail;
    detail.insert("class".to_owned(), failure.class.as_str().into());
    let detail = Payload::json(&Value::Object(detail).to_string());
    Outcome::failure(failure.error, Some(detail), failure.retry)
}
