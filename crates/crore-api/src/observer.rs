//! The engine observer: feeds metrics, groups of errors, traces and the sessions of connected workers.

use std::sync::{Arc, OnceLock};

use crore::observer::{EngineObserver, ObservedChange, ObservedPush};
use crore_core::{Job, Time};
use http::HeaderMap;

use crate::api::ConnectedWorkers;
use crate::errors::{ErrorTable, ObservedError};
use crate::metrics::Metrics;
use crate::telemetry::{self, Options, SpanReceiver, Tracer};

/// Observes the jobs of an engine.
#[derive(Debug)]
pub struct Observer {
    metrics: Metrics,
    errors: ErrorTable,
    workers: Arc<dyn ConnectedWorkers>,
    tracer: OnceLock<Tracer>,
}

impl Observer {
    pub(crate) fn new(workers: Arc<dyn ConnectedWorkers>, now: Time) -> Self {
        let (metrics, errors) = (Metrics::default(), ErrorTable::new(now));
        Self { metrics, errors, workers, tracer: OnceLock::new() }
    }

    /// Errors of failed deliveries.
    pub(crate) const fn errors(&self) -> &ErrorTable {
        &self.errors
    }

    /// Counts the error of a delivery.
    fn record_error(&self, change: &ObservedChange<'_>, message: &str) {
        let Job { id, spec, live, .. } = change.job;
        let error = ObservedError {
            queue: &spec.queue,
            kind: &spec.kind,
            job: *id,
            message,
            at: change.at,
        };
        let version = || self.workers.version_of(live.worker.as_ref()?);
        self.errors.record(&error, version);
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
        if let Some(error) = change.error {
            self.record_error(change, error);
        }
        if let Some(tracer) = self.tracer() {
            tracer.changed(change);
        }
    }
}
