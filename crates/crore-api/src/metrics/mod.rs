//! Prometheus metrics.
//!
//! Jobs are counted through [`crore::observer::EngineObserver`] and not through the engine's events. An observer is
//! called synchronously, which costs a look-up of the queue and a few additions; events are copied for each listener,
//! may be missed, and do not include wait times. Measured on a memory store: an observer adds 500 instructions to the
//! 6,500 of a push (a listener 900), and 1,000 to the 21,500 of a push and a run (a listener 1,900).
//!
//! Gauges of the engine and its store (jobs, leases, bytes) are not tracked; they are queried on each scrape.

mod classic;
mod gauges;
mod key_waits;
mod process;
mod queues;
mod requests;
mod table;

use std::sync::Arc;

use crore::Engine;
use crore::observer::{ObservedChange, ObservedPush};
use crore_core::{Job, Time};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use gauges::Gauges;
pub use process::ProcessUsage;
use queues::QueueMetrics;
use requests::RequestMetrics;
pub use requests::{MeasureState, measure};
pub use table::{METRICS, MetricRow};

/// Outcomes of trace spans: values of a label.
const SPANS: [&str; 2] = ["sent", "dropped"];

/// A label set with one label.
pub type Label = [(&'static str, &'static str); 1];

/// All metrics. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Instruments>);

#[derive(Debug, Default)]
struct Instruments {
    queues: QueueMetrics,
    requests: RequestMetrics,
    connections: Gauge,
    accepted: Counter,
    spans: Family<Label, Counter>,
}

/// Text format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus text format 0.0.4.
    Classic,
    /// OpenMetrics 1.0.0.
    Open,
}

impl Metrics {
    /// Current metrics as text.
    pub async fn text(&self, engine: &Engine, form: MetricsFormat) -> Result<String, crore::Error> {
        let now = Gauges::query(engine, &self.0.queues).await?;
        let mut registry = Registry::default();
        self.register(&mut registry);
        registry.register_collector(Box::new(now));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        Ok(match form {
            MetricsFormat::Open => text,
            MetricsFormat::Classic => classic::convert(&text),
        })
    }

    /// Registers the metrics that are tracked here, in the order of the table. The registry is only a list, so each
    /// scrape builds its own.
    fn register(&self, registry: &mut Registry) {
        let Instruments { queues, requests, connections, accepted, spans } = &*self.0;
        registry.register_collector(Box::new(queues.collector()));
        put(registry, "crore_http_requests", requests.completed.clone());
        put(registry, "crore_http_request_seconds", requests.durations.clone());
        put(registry, "crore_grpc_calls", requests.calls.clone());
        put(registry, "crore_rejected", requests.rejected.clone());
        put(registry, "crore_connections", connections.clone());
        put(registry, "crore_connections_accepted", accepted.clone());
        // Outcomes that have not occurred are shown as zero.
        SPANS.iter().for_each(|outcome| drop(spans.get_or_create(&[("outcome", *outcome)])));
        put(registry, "crore_spans", spans.clone());
    }

    /// Counts an accepted connection; it counts as open until the returned guard is dropped.
    pub fn connected(&self) -> OpenConnection {
        self.0.accepted.inc();
        self.0.connections.inc();
        OpenConnection(self.clone())
    }

    /// Counts a request or connection that was rejected before it reached a door.
    pub fn rejected(&self, reason: &'static str) {
        self.0.requests.reject("none", reason);
    }

    /// Counts a completed gRPC call with its status.
    pub fn called(&self, call: &'static str, status: &'static str) {
        self.0.requests.call(call, status);
    }

    /// Counts spans that were sent or dropped.
    pub fn spans(&self, outcome: &'static str, n: u64) {
        self.0.spans.get_or_create(&[("outcome", outcome)]).inc_by(n);
    }

    /// Counts pushed jobs.
    pub fn pushed(&self, jobs: &mut dyn Iterator<Item = ObservedPush<'_>>) {
        self.0.queues.pushed(jobs);
    }

    pub(crate) fn started(&self, jobs: &[Job], at: Time) {
        self.0.queues.started(jobs, at);
    }

    pub(crate) fn changed(&self, change: &ObservedChange<'_>) {
        self.0.queues.changed(change);
    }
}

/// Guard of an open connection.
#[derive(Debug)]
pub struct OpenConnection(Metrics);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.connections.dec();
    }
}

fn put(registry: &mut Registry, name: &'static str, metric: impl Metric) {
    registry.register(name, table::help(name), metric);
}
