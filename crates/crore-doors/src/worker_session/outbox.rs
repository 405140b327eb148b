//! Jobs that were fetched for a worker and are not sent yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crore::Engine;
use crore::finish::Finish;
use crore_core::machine::Outcome;
use crore_core::{Job, Name};
use crore_wire::worker::{Delivered, Handled, HandlerRevision, Held, ServerMessage};

use crate::Doors;

/// A message is sent when it has about so many bytes; every client takes four times as many.
const MESSAGE_BYTES: usize = 1 << 20;
/// Handlers to remember. Above it, all are forgotten and looked up again.
const MAX_HANDLERS: usize = 1024;

/// Jobs that were fetched for a worker and are not sent yet.
#[derive(Default)]
pub(super) struct Outbox {
    jobs: std::vec::IntoIter<Job>,
    /// `None`: the worker does not run handlers.
    handlers: Option<Handlers>,
}

const fn held(job: &Job) -> Held {
    Held { id: job.id, delivery: job.live.delivery }
}

impl Outbox {
    pub(super) fn new(runs_handlers: bool) -> Self {
        Self { jobs: Vec::new().into_iter(), handlers: runs_handlers.then(Handlers::default) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.len() == 0
    }

    /// Sets the jobs to send; there are none left.
    pub(super) fn fill(&mut self, jobs: Vec<Job>) {
        self.jobs = jobs.into_iter();
    }

    /// Withdraws jobs whose deliveries are lost before they were sent, from here and from `lost`; returns their number.
    /// A worker that was told of both would keep the job, while its lease is gone: the slot would be given twice.
    pub(super) fn withdraw(&mut self, lost: &mut Vec<Held>) -> usize {
        let unsent = self.jobs.len();
        if unsent == 0 || lost.is_empty() {
            return 0;
        }
        let is_lost: HashSet<_> = lost.iter().copied().collect();
        let (gone, left): (Vec<Job>, Vec<Job>) =
            std::mem::take(&mut self.jobs).partition(|job| is_lost.contains(&held(job)));
        let gone: HashSet<_> = gone.iter().map(held).collect();
        lost.retain(|lost| !gone.contains(lost));
        self.jobs = left.into_iter();
        gone.len()
    }

    /// Moves jobs into a message until it is full, and returns those that have no lease: they end when they are sent.
    pub(super) fn send(&mut self, doors: &Doors, message: &mut ServerMessage) -> Vec<Job> {
        let (mut bytes, mut unleased) = (0, Vec::new());
        message.jobs.reserve(self.jobs.len());
        while bytes < MESSAGE_BYTES
            && let Some(job) = self.jobs.next()
        {
            bytes += job.spec.payload.bytes.len() + 128;
            let mut delivered = Delivered::of(&job, doors.api().trace_of(&job));
            if let Some(handlers) = &mut self.handlers {
                delivered.handler = handlers.of(doors.engine(), &job);
            }
            message.jobs.push(delivered);
            if job.spec.lease.is_none() {
                unleased.push(job);
            }
        }
        unleased
    }

    /// Takes all jobs out.
    pub(super) fn into_jobs(self) -> Vec<Job> {
        self.jobs.collect()
    }
}

/// Handlers of jobs that were sent, so that the settings of each revision are shared by its jobs.
#[derive(Default)]
struct Handlers(HashMap<Name, Arc<HandlerRevision>>);

impl Handlers {
    /// The handler of a job; `None`: it was removed since the job was fetched.
    fn of(&mut self, engine: &Engine, job: &Job) -> Option<Handled> {
        let (kind, known) = engine.handlers().of_job(job)?;
        // Runners are pooled by kind: a job that waited under a former kind has no pool.
        let pooled = known.handler.pooled && kind == job.spec.kind;
        let revision = known.revision.0;
        if let Some(handler) = self.0.get(&kind).filter(|last| last.revision() == revision) {
            return Some(Handled { handler: Arc::clone(handler), pooled });
        }
        if self.0.len() >= MAX_HANDLERS {
            self.0.clear();
        }
        let (runner, settings) = (known.handler.runner.as_str(), known.handler.settings.clone());
        let handler = Arc::new(HandlerRevision::new(revision, runner, settings));
        self.0.insert(kind, Arc::clone(&handler));
        Some(Handled { handler, pooled })
    }
}

/// Hands jobs to others that were fetched for a worker and never sent to it, at no cost in attempts.
pub(super) async fn hand_back(engine: &Engine, unsent: &[Job]) {
    let finishes = unsent.iter().map(|job| Finish::of(job, Outcome::Interrupted)).collect();
    if let Err(error) = engine.deliveries().finish_all(finishes).await {
        tracing::warn!(%error, "jobs that were not sent to their worker wait for the end of their leases");
    }
}
