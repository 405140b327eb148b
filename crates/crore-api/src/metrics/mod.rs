//! Metrics, as Prometheus reads them.
//!
//! What happens to jobs is seen through [`crore::watch::Watch`], and not through the engine's events: a watch costs
//! nothing where there is none and, where there is one, a look-up of the queue and a few additions, while an event is
//! copied for its listener, who may fall behind, and does not say how long a job has waited. Measured over a store in
//! memory: 500 instructions more for a push of 6,500 (a listener: 900), and 1,000 more for a push and its run of 21,500
//! (a listener: 1,900).
//!
//! How much there is of something (jobs, leases, bytes) is not counted at all but asked for when somebody reads the page.

mod classic;
mod now;
mod process;
mod queues;
mod requests;
mod table;

use std::sync::Arc;

use crore::Engine;
use crore::watch::{Changed, Pushed};
use crore_core::{Job, Time};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use now::Now;
pub(crate) use now::word;
pub use process::Process;
use queues::Queues;
use requests::Requests;
pub use requests::{Measured, measure};
pub use table::{METRICS, Row};

/// What becomes of spans.
const SPANS: [&str; 2] = ["sent", "dropped"];

/// A label with one value.
pub type Label = [(&'static str, &'static str); 1];

/// Everything that is counted. Cloning gives another handle to the same.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    queues: Queues,
    requests: Requests,
    connections: Gauge,
    accepted: Counter,
    spans: Family<Label, Counter>,
}

/// The two forms in which metrics can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Prometheus' own, 0.0.4.
    Classic,
    /// OpenMetrics 1.0.0.
    Open,
}

impl Metrics {
    /// What there is to read now.
    pub async fn text(&self, engine: &Engine, form: Form) -> Result<String, crore::Error> {
        let now = Now::look(engine, &self.0.queues).await?;
        let mut registry = Registry::default();
        self.register(&mut registry);
        registry.register_collector(Box::new(now));
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        Ok(match form {
            Form::Open => text,
            Form::Classic => classic::of(&text),
        })
    }

    /// All that is counted, in the order of the table. A registry is no more than a list, and is made anew for
    /// each reading, so that two who read at once do not meet.
    fn register(&self, registry: &mut Registry) {
        let Counted { queues, requests, connections, accepted, spans } = &*self.0;
        registry.register_collector(Box::new(queues.shown()));
        put(registry, "crore_http_requests", requests.answered.clone());
        put(registry, "crore_http_request_seconds", requests.took.clone());
        put(registry, "crore_grpc_calls", requests.called.clone());
        put(registry, "crore_rejected", requests.rejected.clone());
        put(registry, "crore_connections", connections.clone());
        put(registry, "crore_connections_accepted", accepted.clone());
        // What has not happened yet is shown as zero, and not left out.
        SPANS.iter().for_each(|outcome| drop(spans.get_or_create(&[("outcome", *outcome)])));
        put(registry, "crore_spans", spans.clone());
    }

    /// A connection was accepted; it is counted as open until what this gives is dropped.
    pub fn connected(&self) -> Connected {
        self.0.accepted.inc();
        self.0.connections.inc();
        Connected(self.clone())
    }

    /// Something was turned away before any door saw it.
    pub fn turned_away(&self, reason: &'static str) {
        self.0.requests.reject("none", reason);
    }

    /// A call of gRPC has ended, with this status.
    pub fn called(&self, call: &'static str, status: &'static str) {
        self.0.requests.call(call, status);
    }

    /// So many spans were sent, or dropped.
    pub fn spans(&self, outcome: &'static str, n: u64) {
        self.0.spans.get_or_create(&[("outcome", outcome)]).inc_by(n);
    }

    /// What the engine's watch sees.
    pub fn pushed(&self, jobs: &mut dyn Iterator<Item = Pushed<'_>>) {
        self.0.queues.pushed(jobs);
    }

    pub(crate) fn started(&self, jobs: &[Job], at: Time) {
        self.0.queues.started(jobs, at);
    }

    pub(crate) fn changed(&self, change: &Changed<'_>) {
        self.0.queues.changed(change);
    }
}

/// A connection that is open.
#[derive(Debug)]
pub struct Connected(Metrics);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connections.dec();
    }
}

fn put(registry: &mut Registry, name: &'static str, metric: impl Metric) {
    registry.register(name, table::help(name), metric);
}
