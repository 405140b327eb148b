//! Metrics of requests.

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::Metrics;
use crate::Fault;
use crate::middleware::Next;
use crate::request_log;

/// Buckets in seconds, up to the default maximum wait of a fetch.
const TIMES: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// Counters and histograms of requests.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    pub(super) completed: Family<RequestLabels, Counter>,
    pub(super) durations: Family<RouteLabels, Histogram>,
    pub(super) rejected: Family<RejectedLabels, Counter>,
    pub(super) calls: Family<CallLabels, Counter>,
}

/// Labels of a completed gRPC call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CallLabels {
    call: &'static str,
    status: &'static str,
}

/// Labels of a completed request. The route is a pattern and not a path, so their number is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    door: &'static str,
    method: &'static str,
    route: String,
    status: u16,
}

/// Labels of a request duration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    door: &'static str,
    route: String,
}

/// Labels of a rejected request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RejectedLabels {
    door: &'static str,
    reason: String,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        let took = Family::new_with_constructor((|| Histogram::new(TIMES)) as fn() -> Histogram);
        let (answered, rejected, called) = Default::default();
        Self { completed: answered, durations: took, rejected, calls: called }
    }
}

impl RequestMetrics {
    pub(super) fn call(&self, call: &'static str, status: &'static str) {
        self.calls.get_or_create(&CallLabels { call, status }).inc();
    }

    pub(super) fn reject(&self, door: &'static str, reason: &str) {
        let rejected = RejectedLabels { door, reason: reason.to_owned() };
        self.rejected.get_or_create(&rejected).inc();
    }
}

/// State of [`measure`]: the metrics, and the door that each route belongs to.
pub type MeasureState = (Metrics, fn(&str) -> &'static str);

/// Middleware that measures a request and writes the request log.
pub async fn measure((metrics, door_of): MeasureState, request: Request, next: Next) -> Response {
    let started = Instant::now();
    // A copy of the path: the URI would keep the whole request head in memory.
    let (verb, path) = (request.method().clone(), Box::<str>::from(request.uri().path()));
    let method = method_label(&verb);
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let (door, requests) = (door_of(route), &metrics.0.requests);
    if let Some(fault) = response.extensions().get::<Fault>() {
        requests.reject(door, &fault.problem().code);
    }
    let route_labels = RouteLabels { door, route: route.to_owned() };
    let elapsed = started.elapsed();
    requests.durations.get_or_create(&route_labels).observe(elapsed.as_secs_f64());
    let RouteLabels { route, .. } = route_labels;
    let request_labels = RequestLabels { door, method, route, status: response.status().as_u16() };
    requests.completed.get_or_create(&request_labels).inc();
    request_log::write(&verb, &path, &response, elapsed);
    response
}

/// A method as a label; unknown methods are grouped.
const fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
