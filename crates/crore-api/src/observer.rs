//! The engine observer: feeds metrics, traces and the sessions of connected workers.

use std::sync::{Arc, OnceLock};

use crore::observer::{EngineObserver, ObservedChange, ObservedPush};
use crore_core::{Job, Time};
use http::HeaderMap;

use crate::api::ConnectedWorkers;
use crate::metrics::Metrics;
use crate::telemetry::{self, Options, SpanReceiver, Tracer};

/// Observes the jobs of an engine.
#[derive(Debug)]
pub struct Observer {
    metrics: Metrics,
    workers: Arc<dyn ConnectedWorkers>,
    tracer: OnceLock<Tracer>,
}

impl Observer {
    pub(crate) fn new(workers: Arc<dyn ConnectedWorkers>) -> Self {
        Self { metrics: Metrics::default(), workers, tracer: OnceLock::new() }
    }

    /// Metrics.
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The tracer, once tracing has started.
    pub fn tracer(&self) -> Option<&Tracer> {
        self.tracer.get()
    }

    /// The trace context of a job's run as headers, for a push worker.
    pub fn trace_headers(&self, job: &Job) -> HeaderMap {
        self.trace_of(job).map(|context| telemetry::headers(&context)).unwrap_or_default()
    }

    /// Starts tracing; `None` if it has already started.
    pub fn trace(&self, options: Options) -> Option<SpanReceiver> {
        let (tracer, spans) = Tracer::new(options, self.metrics.clone());
        self.tracer.set(tracer).is_ok().then_some(spans)
    }
}

impl EngineObserver for Observer {
    fn pushed(&self, jobs: &mut dyn Iterator<Item = ObservedPush<'_>>) {
        match self.tracer() {
            None => self.metrics.pushed(jobs),
            Some(tracer) => self.metrics.pushed(&mut jobs.inspect(|job| tracer.pushed(job))),
        }
    }

    fn started(&self, jobs: &[Job], at: Time) {
        self.metrics.started(jobs, at);
        if let Some(tracer) = self.tracer() {
            tracer.started(jobs, at);
        }
    }

    fn trace_of(&self, job: &Job) -> Option<String> {
        match self.tracer() {
            Some(tracer) => tracer.context_of_run(job),
            None => job.spec.trace.as_deref().map(ToOwned::to_owned),
        }
    }

    fn changed(&self, change: &ObservedChange<'_>) {
        self.metrics.changed(change);
        self.workers.changed(change);
        if let Some(tracer) = self.tracer() {
            tracer.changed(change);
        }
    }
}
