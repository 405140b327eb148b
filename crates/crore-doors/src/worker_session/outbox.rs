//! Jobs that were fetched for a worker and are not sent yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crore::Engine;
use crore::finish::Finish;
use crore_core::machine::Outcome;
use crore_core::{Job, Name};
use crore_wire::worker::{DeliveryRef, HandlerRevision, JobDelivery, JobHandler, ServerMessage};

use crate::Doors;

/// A message is sent when it has about this many bytes; clients accept four times as much.
const MESSAGE_BYTES: usize = 1 << 20;
/// Maximum number of cached handlers; above it, the cache is cleared.
const MAX_HANDLERS: usize = 1024;

/// Jobs that were fetched for a worker and are not sent yet.
#[derive(Default)]
pub(super) struct Outbox {
    jobs: std::vec::IntoIter<Job>,
    /// `None`: the worker does not run handlers.
    handlers: Option<SentHandlers>,
}

const fn held(job: &Job) -> DeliveryRef {
    DeliveryRef { id: job.id, delivery: job.live.delivery }
}

impl Outbox {
    pub(super) fn new(runs_handlers: bool) -> Self {
        Self { jobs: Vec::new().into_iter(), handlers: runs_handlers.then(SentHandlers::default) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.len() == 0
    }

    /// Sets the jobs to send; the outbox must be empty.
    pub(super) fn fill(&mut self, jobs: Vec<Job>) {
        self.jobs = jobs.into_iter();
    }

    /// Withdraws jobs whose deliveries were lost before they were sent, from the outbox and from `lost`; returns
    /// their number. Otherwise the worker would run a job without a lease, and its slot would be used twice.
    pub(super) fn withdraw(&mut self, lost: &mut Vec<DeliveryRef>) -> usize {
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

    /// Moves jobs into a message until it is full, and returns those without a lease: they end when they are sent.
    pub(super) fn send(&mut self, doors: &Doors, message: &mut ServerMessage) -> Vec<Job> {
        let (mut bytes, mut unleased) = (0, Vec::new());
        message.jobs.reserve(self.jobs.len());
        while bytes < MESSAGE_BYTES
            && let Some(job) = self.jobs.next()
        {
            bytes += job.spec.payload.bytes.len() + 128;
            let mut delivered = JobDelivery::of(&job, doors.api().trace_of(&job));
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

/// Cached handlers, so that jobs of one revision share its settings.
#[derive(Default)]
struct SentHandlers(HashMap<Name, Arc<HandlerRevision>>);

impl SentHandlers {
    /// The handler of a job; `None`: it was removed after the job was fetched.
    fn of(&mut self, engine: &Engine, job: &Job) -> Option<JobHandler> {
        let (kind, stored) = engine.handlers().of_job(job)?;
        // Runners are pooled by kind: a job with a former kind of its handler has no pool.
        let pooled = stored.handler.pooled && kind == job.spec.kind;
        let revision = stored.revision.0;
        if let Some(handler) = self.0.get(&kind).filter(|last| last.revision() == revision) {
            return Some(JobHandler { handler: Arc::clone(handler), pooled });
        }
        if self.0.len() >= MAX_HANDLERS {
            self.0.clear();
        }
        let (runner, settings) = (stored.handler.runner.as_str(), stored.handler.settings.clone());
        let handler = Arc::new(HandlerRevision::new(revision, runner, settings));
        self.0.insert(kind, Arc::clone(&handler));
        Some(JobHandler { handler, pooled })
    }
}

/// Returns unsent jobs to their queues, without counting an attempt.
pub(super) async fn return_jobs(engine: &Engine, unsent: &[Job]) {
    let finishes = unsent.iter().map(|job| Finish::of(job, Outcome::Interrupted)).collect();
    if let Err(error) = engine.deliveries().finish_all(finishes).await {
        tracing::warn!(%error, "cannot return unsent jobs; they wait until their leases expire");
    }
}
