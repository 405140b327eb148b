//! Tracer: creates the spans of jobs.

use crore::observer::{ObservedChange, ObservedPush};
use crore_core::job::DeliveryEnd;
use crore_core::{Job, JobId, Name, State, Time};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::context::TraceContext;
use super::ids::{self, SpanStage};
use super::options::Options;
use super::span::{TraceSpan, TraceSpanKind};
use crate::metrics::Metrics;

/// Maximum number of spans waiting for export, up to two kilobytes each; further ones are dropped and counted.
const MAX_WAITING: usize = 8192;

/// Maximum characters of an error message in a span.
const MAX_ERROR_CHARS: usize = 200;

/// Creates spans for changes of jobs.
#[derive(Debug)]
pub struct Tracer {
    options: Options,
    metrics: Metrics,
    to: Sender<TraceSpan>,
}

/// Receiver of spans to export.
#[derive(Debug)]
pub struct SpanReceiver {
    from: Receiver<TraceSpan>,
    metrics: Metrics,
}

impl SpanReceiver {
    /// Waits for spans and returns up to `n`; empty when there will be no more.
    pub async fn next(&mut self, n: usize) -> Vec<TraceSpan> {
        let mut spans = Vec::new();
        self.from.recv_many(&mut spans, n).await;
        spans
    }

    /// Returns up to `n` spans without waiting.
    pub fn waiting(&mut self, n: usize) -> Vec<TraceSpan> {
        let mut spans = Vec::new();
        while spans.len() < n {
            match self.from.try_recv() {
                Ok(span) => spans.push(span),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        spans
    }

    /// Counts exported spans.
    pub fn sent(&self, n: usize) {
        self.metrics.spans("sent", n as u64);
    }

    /// Counts spans that could not be exported.
    pub fn dropped(&self, n: usize) {
        self.metrics.spans("dropped", n as u64);
    }
}

impl Tracer {
    pub(crate) fn new(options: Options, metrics: Metrics) -> (Self, SpanReceiver) {
        let (to, from) = mpsc::channel(MAX_WAITING);
        (Self { options, metrics: metrics.clone(), to }, SpanReceiver { from, metrics })
    }

    fn send(&self, span: TraceSpan) {
        if self.to.try_send(span).is_err() {
            self.metrics.spans("dropped", 1);
        }
    }

    /// The trace context for the worker of a job: its run span is the parent of the worker's spans.
    pub fn context_of_run(&self, job: &Job) -> Option<String> {
        let stored = || job.spec.trace.as_deref().map(ToOwned::to_owned);
        let Some(trace) = self.trace_of(job) else { return stored() };
        let run = trace.run(job);
        Some(trace.context.with_span(run).to_string())
    }

    /// Creates the span of a push with a context. Without a context, the trace starts when the job is first
    /// delivered, because its id depends on the stored job.
    pub fn pushed(&self, job: &ObservedPush<'_>) {
        let context = job.trace.and_then(TraceContext::read);
        if let Some(context) = context.filter(|context| context.is_sampled) {
            let trace = JobTrace { context, begins_here: false };
            self.send(trace.push((job.id, job.queue, job.kind), job.begun_at, job.at));
        }
    }

    pub(crate) fn started(&self, jobs: &[Job], at: Time) {
        for job in jobs {
            let Some(trace) = self.trace_of(job) else { continue };
            let is_first = job.live.history.is_empty();
            if trace.begins_here && is_first {
                let (pushed_at, spec) = (job.live.pushed_at, &job.spec);
                self.send(trace.push((job.id, &spec.queue, &spec.kind), pushed_at, pushed_at));
            }
            self.send(trace.wait(job, at));
        }
    }

    pub(crate) fn changed(&self, change: &ObservedChange<'_>) {
        if let Some(ended) = change.ended
            && let Some(trace) = self.trace_of(change.job)
        {
            self.send(trace.ran(change, ended));
            self.send(trace.finish(change));
        }
    }

    /// The trace of a job; `None` if it is not sampled.
    fn trace_of(&self, job: &Job) -> Option<JobTrace> {
        if let Some(context) = job.spec.trace.as_deref().and_then(TraceContext::read) {
            let is_sampled = context.is_sampled;
            return is_sampled.then_some(JobTrace { context, begins_here: false });
        }
        let trace = ids::trace(&self.options.service, job);
        // The upper 53 bits of the id, as a fraction, decide whether it is sampled.
        let is_sampled = (trace as u64 >> 11) as f64 / ((1_u64 << 53) as f64) < self.options.sample;
        let context = TraceContext { trace, span: 0, is_sampled, state: None };
        is_sampled.then_some(JobTrace { context, begins_here: true })
    }
}

/// The trace of one job.
struct JobTrace {
    context: TraceContext,
    /// Whether the push is the root of the trace.
    begins_here: bool,
}

impl JobTrace {
    fn id(&self, id: JobId, stage: SpanStage) -> u64 {
        ids::span(self.context.trace, id, None, stage)
    }

    fn stage(&self, job: &Job, stage: SpanStage) -> u64 {
        ids::span(self.context.trace, job.id, Some(job.live.delivery), stage)
    }

    fn run(&self, job: &Job) -> u64 {
        self.stage(job, SpanStage::Run)
    }

    fn span(&self, name: &'static str, id: u64, (begun_at, ended_at): (Time, Time)) -> TraceSpan {
        TraceSpan {
            trace: self.context.trace,
            id,
            parent: None,
            link: None,
            state: self.context.state.clone(),
            name,
            kind: TraceSpanKind::Internal,
            begun_at,
            ended_at: ended_at.max(begun_at),
            attributes: Vec::new(),
            error: None,
        }
    }

    fn push(
        &self,
        (id, queue, kind): (JobId, &Name, &Name),
        begun_at: Time,
        at: Time,
    ) -> TraceSpan {
        let span = self.span("push", self.id(id, SpanStage::Push), (begun_at, at));
        let parent = (!self.begins_here).then_some(self.context.span);
        TraceSpan {
            parent,
            kind: TraceSpanKind::Producer,
            attributes: job_attributes(id, queue, kind),
            ..span
        }
    }

    /// From when the job became available until it was delivered.
    fn wait(&self, job: &Job, at: Time) -> TraceSpan {
        let since = job.live.due.max(job.live.pushed_at);
        let push = self.id(job.id, SpanStage::Push);
        let span = self.span("wait", self.stage(job, SpanStage::Wait), (since, at));
        TraceSpan {
            parent: Some(push),
            link: Some(push),
            attributes: delivery_attributes(job),
            ..span
        }
    }

    fn ran(&self, change: &ObservedChange<'_>, ended: DeliveryEnd) -> TraceSpan {
        let job = change.job;
        let mut attributes = delivery_attributes(job);
        attributes.push(("crore.ended", delivery_end_text(ended).to_owned()));
        attributes.extend(job.live.worker.as_ref().map(|name| ("crore.worker", name.to_string())));
        let error = match ended {
            DeliveryEnd::Failed | DeliveryEnd::TimedOut | DeliveryEnd::Lapsed => Some(
                change
                    .error
                    .unwrap_or(delivery_end_text(ended))
                    .chars()
                    .take(MAX_ERROR_CHARS)
                    .collect(),
            ),
            DeliveryEnd::Done
            | DeliveryEnd::Snoozed
            | DeliveryEnd::Interrupted
            | DeliveryEnd::Cancelled => None,
        };
        let parent = Some(self.id(job.id, SpanStage::Push));
        let span = self.span("run", self.run(job), (job.live.started_at, change.at));
        TraceSpan { parent, kind: TraceSpanKind::Consumer, attributes, error, ..span }
    }

    /// The write that ended a run.
    fn finish(&self, change: &ObservedChange<'_>) -> TraceSpan {
        let job = change.job;
        let mut attributes = delivery_attributes(job);
        attributes.push(("crore.state", state(change.state).to_owned()));
        let span =
            self.span("finish", self.stage(job, SpanStage::Finish), (change.begun_at, change.at));
        TraceSpan { parent: Some(self.run(job)), attributes, ..span }
    }
}

/// Attributes of every span, named after OpenTelemetry's semantic conventions.
fn job_attributes(id: JobId, queue: &Name, kind: &Name) -> Vec<(&'static str, String)> {
    vec![
        ("messaging.system", "crore".to_owned()),
        ("messaging.destination.name", queue.to_string()),
        ("messaging.message.id", id.to_string()),
        ("crore.kind", kind.to_string()),
    ]
}

fn delivery_attributes(job: &Job) -> Vec<(&'static str, String)> {
    let mut attributes = job_attributes(job.id, &job.spec.queue, &job.spec.kind);
    attributes.push(("crore.delivery", job.live.delivery.0.to_string()));
    attributes.push(("crore.attempt", job.live.attempt.to_string()));
    attributes
}

const fn delivery_end_text(ended: DeliveryEnd) -> &'static str {
    match ended {
        DeliveryEnd::Done => "done",
        DeliveryEnd::Failed => "failed",
        DeliveryEnd::Snoozed => "snoozed",
        DeliveryEnd::Interrupted => "interrupted",
        DeliveryEnd::Lapsed => "lapsed",
        DeliveryEnd::TimedOut => "timed-out",
        DeliveryEnd::Cancelled => "cancelled",
    }
}

const fn state(state: Option<State>) -> &'static str {
    match state {
        None => "gone",
        Some(state) => state.word(),
    }
}
