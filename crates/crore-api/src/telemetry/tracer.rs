//! From what happens to a job to its spans.

use crore::watch::{Changed, Pushed};
use crore_core::job::Ended;
use crore_core::{Job, JobId, Name, State, Time};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::context::Context;
use super::ids::{self, Stage};
use super::options::Options;
use super::span::{Kind, Span};
use crate::metrics::Metrics;

/// So many spans wait to be sent, of two kilobytes each at the most; more are dropped, and counted.
const WAITING: usize = 8192;

/// So many characters of an error go into a span; the job has the whole of it.
const ERROR: usize = 200;

/// Makes spans of what happens to jobs.
#[derive(Debug)]
pub struct Tracer {
    options: Options,
    metrics: Metrics,
    to: Sender<Span>,
}

/// Spans that wait to be sent.
#[derive(Debug)]
pub struct Spans {
    from: Receiver<Span>,
    metrics: Metrics,
}

impl Spans {
    /// The next spans, as soon as there are any, at most so many; none: there will be no more.
    pub async fn next(&mut self, n: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        self.from.recv_many(&mut spans, n).await;
        spans
    }

    /// The spans that are there, at most so many.
    pub fn waiting(&mut self, n: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.len() < n {
            match self.from.try_recv() {
                Ok(span) => spans.push(span),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        spans
    }

    /// So many were sent.
    pub fn sent(&self, n: usize) {
        self.metrics.spans("sent", n as u64);
    }

    /// So many could not be.
    pub fn dropped(&self, n: usize) {
        self.metrics.spans("dropped", n as u64);
    }
}

impl Tracer {
    pub(crate) fn new(options: Options, metrics: Metrics) -> (Self, Spans) {
        let (to, from) = mpsc::channel(WAITING);
        (Self { options, metrics: metrics.clone(), to }, Spans { from, metrics })
    }

    fn send(&self, span: Span) {
        if self.to.try_send(span).is_err() {
            self.metrics.spans("dropped", 1);
        }
    }

    /// What whoever runs a job is told: its run is the parent of what he does.
    pub fn context_of_run(&self, job: &Job) -> Option<String> {
        let kept = || job.spec.trace.as_deref().map(ToOwned::to_owned);
        let Some(trail) = self.trail(job) else { return kept() };
        let run = trail.run(job);
        Some(trail.context.at(run).to_string())
    }

    /// A push that came with a context leaves a span at once. One without begins a trace when its job is first
    /// handed out: only then is known all that its id is made of.
    pub fn pushed(&self, job: &Pushed<'_>) {
        let context = job.trace.and_then(Context::read);
        if let Some(context) = context.filter(|context| context.is_sampled) {
            let trail = Trail { context, begins_here: false };
            self.send(trail.push((job.id, job.queue, job.kind), job.begun_at, job.at));
        }
    }

    pub(crate) fn started(&self, jobs: &[Job], at: Time) {
        for job in jobs {
            let Some(trail) = self.trail(job) else { continue };
            let is_first = job.live.history.is_empty();
            if trail.begins_here && is_first {
                let (pushed_at, spec) = (job.live.pushed_at, &job.spec);
                self.send(trail.push((job.id, &spec.queue, &spec.kind), pushed_at, pushed_at));
            }
            self.send(trail.wait(job, at));
        }
    }

    pub(crate) fn changed(&self, change: &Changed<'_>) {
        if let Some(ended) = change.ended
            && let Some(trail) = self.trail(change.job)
        {
            self.send(trail.ran(change, ended));
            self.send(trail.finish(change));
        }
    }

    /// The trace of a job; `None`: it is not recorded.
    fn trail(&self, job: &Job) -> Option<Trail> {
        if let Some(context) = job.spec.trace.as_deref().and_then(Context::read) {
            let is_sampled = context.is_sampled;
            return is_sampled.then_some(Trail { context, begins_here: false });
        }
        let trace = ids::trace(&self.options.service, job);
        // As much of all numbers as is to be recorded.
        let is_sampled = (trace as u64 >> 11) as f64 / ((1_u64 << 53) as f64) < self.options.sample;
        let context = Context { trace, span: 0, is_sampled, state: None };
        is_sampled.then_some(Trail { context, begins_here: true })
    }
}

/// The trace of one job.
struct Trail {
    context: Context,
    /// Whether its push is what the trace begins with.
    begins_here: bool,
}

impl Trail {
    fn id(&self, id: JobId, stage: Stage) -> u64 {
        ids::span(self.context.trace, id, None, stage)
    }

    fn stage(&self, job: &Job, stage: Stage) -> u64 {
        ids::span(self.context.trace, job.id, Some(job.live.delivery), stage)
    }

    fn run(&self, job: &Job) -> u64 {
        self.stage(job, Stage::Run)
    }

    fn span(&self, name: &'static str, id: u64, (begun_at, ended_at): (Time, Time)) -> Span {
        Span {
            trace: self.context.trace,
            id,
            parent: None,
            link: None,
            state: self.context.state.clone(),
            name,
            kind: Kind::Internal,
            begun_at,
            ended_at: ended_at.max(begun_at),
            attributes: Vec::new(),
            error: None,
        }
    }

    fn push(&self, (id, queue, kind): (JobId, &Name, &Name), begun_at: Time, at: Time) -> Span {
        let span = self.span("push", self.id(id, Stage::Push), (begun_at, at));
        let parent = (!self.begins_here).then_some(self.context.span);
        Span { parent, kind: Kind::Producer, attributes: about(id, queue, kind), ..span }
    }

    /// From when a job could have been fetched until it was.
    fn wait(&self, job: &Job, at: Time) -> Span {
        let since = job.live.due.max(job.live.pushed_at);
        let push = self.id(job.id, Stage::Push);
        let span = self.span("wait", self.stage(job, Stage::Wait), (since, at));
        Span { parent: Some(push), link: Some(push), attributes: of(job), ..span }
    }

    fn ran(&self, change: &Changed<'_>, ended: Ended) -> Span {
        let job = change.job;
        let mut attributes = of(job);
        attributes.push(("crore.ended", word(ended).to_owned()));
        attributes.extend(job.live.worker.as_ref().map(|name| ("crore.worker", name.to_string())));
        let error = match ended {
            Ended::Failed | Ended::TimedOut | Ended::Lapsed => {
                Some(change.error.unwrap_or(word(ended)).chars().take(ERROR).collect())
            }
            Ended::Done | Ended::Snoozed | Ended::Interrupted | Ended::Cancelled => None,
        };
        let parent = Some(self.id(job.id, Stage::Push));
        let span = self.span("run", self.run(job), (job.live.started_at, change.at));
        Span { parent, kind: Kind::Consumer, attributes, error, ..span }
    }

    /// The write that ended a run.
    fn finish(&self, change: &Changed<'_>) -> Span {
        let job = change.job;
        let mut attributes = of(job);
        attributes.push(("crore.state", state(change.state).to_owned()));
        let span =
            self.span("finish", self.stage(job, Stage::Finish), (change.begun_at, change.at));
        Span { parent: Some(self.run(job)), attributes, ..span }
    }
}

/// What every span says of its job, in the words that the conventions of OpenTelemetry have for it.
fn about(id: JobId, queue: &Name, kind: &Name) -> Vec<(&'static str, String)> {
    vec![
        ("messaging.system", "crore".to_owned()),
        ("messaging.destination.name", queue.to_string()),
        ("messaging.message.id", id.to_string()),
        ("crore.kind", kind.to_string()),
    ]
}

fn of(job: &Job) -> Vec<(&'static str, String)> {
    let mut attributes = about(job.id, &job.spec.queue, &job.spec.kind);
    attributes.push(("crore.delivery", job.live.delivery.0.to_string()));
    attributes.push(("crore.attempt", job.live.attempt.to_string()));
    attributes
}

const fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Done => "done",
        Ended::Failed => "failed",
        Ended::Snoozed => "snoozed",
        Ended::Interrupted => "interrupted",
        Ended::Lapsed => "lapsed",
        Ended::TimedOut => "timed-out",
        Ended::Cancelled => "cancelled",
    }
}

const fn state(state: Option<State>) -> &'static str {
    match state {
        None => "gone",
        Some(state) => crate::metrics::word(state),
    }
}
