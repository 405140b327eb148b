//! The host: takes jobs that have a handler from a server, and has them run.
//!
//! It is a worker like any other, with a worker's stream: so it may sit in the server's own process or across
//! the network, and what holds for workers holds for it. What it is told with each job is all that it knows
//! of handlers: it keeps none, and none is ever old.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crore_client::{Delivered, Delivery, Error, Handled, Outcome, Way, Worker};
use crore_core::handler::joined;
use crore_core::{Name, Payload};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Said};
use crate::run::Recipe;
use crate::runner::{Class, Failure, Item, Output, Task};
use crate::runners::Runners;

/// A host about to run.
#[derive(Debug)]
#[must_use = "a host does nothing before it is run"]
pub struct Host {
    way: Way,
    runners: Arc<Runners>,
    channels: BTreeMap<Name, u32>,
    name: String,
    grace: Duration,
    ending: Duration,
}

impl Host {
    /// A host of these runners for a server's jobs.
    pub fn new(way: impl Into<Way>, runners: Arc<Runners>) -> Self {
        let (way, channels) = (way.into(), BTreeMap::new());
        let (grace, ending) = (Duration::from_secs(15), Duration::from_secs(10));
        Self { way, runners, channels, name: String::new(), grace, ending }
    }

    /// Serves a channel: jobs of this queue, so many at a time.
    pub fn channel(mut self, queue: Name, parallel: u32) -> Self {
        self.channels.insert(queue, parallel);
        self
    }

    /// What people call it; a channel's name is put behind.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long a stop may take in all. The last ten seconds of it, or half if it is shorter than twenty, are for what
    /// has not finished by then: it is asked to stop, and handed back when it has.
    pub fn stop_within(mut self, all: Duration) -> Self {
        self.ending = (all / 2).min(Duration::from_secs(10));
        self.grace = all.saturating_sub(self.ending);
        self
    }

    /// Runs jobs until `shutdown` comes, then takes none, and gives back when those that run are over.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let mut beginning = JoinSet::new();
        let runners = Arc::clone(&self.runners);
        beginning.spawn(async move { runners.begin().await });
        let mut channels = JoinSet::new();
        for (queue, parallel) in self.channels {
            let runners = Arc::clone(&self.runners);
            let worker = Worker::new(self.way.clone())
                .queue(queue.as_str())
                .slots(parallel)
                .version(env!("CARGO_PKG_VERSION"))
                .grace(self.grace)
                .ending(self.ending)
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
                // One that panicked has said so.
                ended.unwrap_or(Ok(()))?;
            }
            Ok(())
        };
        let told = async {
            shutdown.await;
            stop.cancel();
            std::future::pending().await
        };
        tokio::select! {
            ended = ended => ended,
            never = told => never,
        }
    }
}

/// Runs one job, and says how it went.
async fn run(runners: Arc<Runners>, delivery: Delivery, parallel: u32) -> Outcome {
    let Some(handler) = &delivery.job().handler else {
        // It was taken away since: whoever is next may have another.
        return Outcome::snooze(Duration::from_secs(1));
    };
    let said = delivery.clone();
    let context = Context::new(delivery.cancel().clone(), move |what| match what {
        Said::Line(text) => said.line(text),
        Said::Progress(percent, text) => said.progress(percent, text),
    });
    match run_as(&runners, handler, delivery.job(), parallel, &context).await {
        Ok(output) => given(&output),
        Err(failure) if failure.class == Class::Stopped => stopped(&delivery),
        Err(failure) => failed(failure),
    }
}

/// Runs a job as its handler says.
async fn run_as(
    runners: &Runners,
    Handled { handler, pooled }: &Handled,
    job: &Delivered,
    parallel: u32,
    context: &Context,
) -> Result<Output, Failure> {
    let settings = handler
        .settings()
        .map_err(|error| Failure::fatal(format!("the settings are no JSON: {error}")))?;
    let recipe = Recipe {
        revision: handler.revision(),
        runner: handler.runner(),
        settings,
        pool: NonZeroUsize::new(parallel as usize).filter(|_| *pooled),
    };
    runners.run(recipe, &task(job), context).await
}

fn task(job: &Delivered) -> Task {
    Task {
        job: job.id,
        delivery: job.delivery,
        kind: job.kind.clone(),
        attempt: job.attempt,
        payload: Item { encoding: job.encoding, bytes: job.payload.clone() },
        timeout: job.timeout,
        trace: job.trace.as_deref().map(Into::into),
    }
}

/// What a run gave: one item is the result as it is, and several are a list.
fn given(output: &Output) -> Outcome {
    match &output.items[..] {
        [] => Outcome::done(),
        [item] => Outcome::result(item.encoding, &*item.bytes),
        items => {
            let items: Vec<&[u8]> = items.iter().map(|item| &*item.bytes).collect();
            let payload = joined(&items);
            Outcome::result(payload.encoding, payload.bytes)
        }
    }
}

/// What is to be said of a run that was stopped. One whose time was over has failed; any other is handed
/// back, which ends a job that was cancelled.
fn stopped(delivery: &Delivery) -> Outcome {
    let is_late =
        delivery.deadline().is_some_and(|deadline| deadline <= tokio::time::Instant::now());
    if is_late { failed(Failure::again("timed out")) } else { Outcome::interrupted() }
}

fn failed(failure: Failure) -> Outcome {
    let mut detail = failure.detail;
    detail.insert("class".to_owned(), failure.class.as_str().into());
    let detail = Payload::json(&Value::Object(detail).to_string());
    Outcome::failure(failure.error, Some(detail), failure.again)
}
