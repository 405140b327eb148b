//! What the doors see of the engine: for metrics, and for traces.

use std::sync::OnceLock;

use crore::watch::{Changed, Pushed, Watch};
use crore_core::{Job, Time};
use http::HeaderMap;

use crate::metrics::Metrics;
use crate::telemetry::{self, Options, Spans, Tracer};
use crate::worker_session::Registry;

/// Sees what happens to jobs.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    metrics: Metrics,
    sessions: Registry,
    tracer: OnceLock<Tracer>,
}

impl Sight {
    pub(crate) fn new(sessions: Registry) -> Self {
        Self { sessions, ..Self::default() }
    }

    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn tracer(&self) -> Option<&Tracer> {
        self.tracer.get()
    }

    /// The trace context of a job's run as headers, for a worker that is called.
    pub(crate) fn trace_headers(&self, job: &Job) -> HeaderMap {
        self.trace_of(job).map(|context| telemetry::headers(&context)).unwrap_or_default()
    }

    /// Begins to make spans; `None`: they are made already.
    pub(crate) fn trace(&self, options: Options) -> Option<Spans> {
        let (tracer, spans) = Tracer::new(options, self.metrics.clone());
        self.tracer.set(tracer).is_ok().then_some(spans)
    }
}

impl Watch for Sight {
    fn pushed(&self, jobs: &mut dyn Iterator<Item = Pushed<'_>>) {
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

    fn changed(&self, change: &Changed<'_>) {
        self.metrics.changed(change);
        self.sessions.changed(change);
        if let Some(tracer) = self.tracer() {
            tracer.changed(change);
        }
    }
}
