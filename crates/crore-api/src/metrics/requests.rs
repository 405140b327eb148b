//! Requests, and how long their answers took.

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

/// Seconds; the longest is as long as a caller may wait for a job.
const TIMES: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// What is counted of requests.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) answered: Family<Answered, Counter>,
    pub(super) took: Family<Route, Histogram>,
    pub(super) rejected: Family<Rejected, Counter>,
    pub(super) called: Family<Called, Counter>,
}

/// A call of gRPC that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Called {
    call: &'static str,
    status: &'static str,
}

/// A request that was answered. Its route is one of ours and no path, so there are only so many.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answered {
    door: &'static str,
    method: &'static str,
    route: String,
    status: u16,
}

/// Where a request went.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Route {
    door: &'static str,
    route: String,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Rejected {
    door: &'static str,
    reason: String,
}

impl Default for Requests {
    fn default() -> Self {
        let took = Family::new_with_constructor((|| Histogram::new(TIMES)) as fn() -> Histogram);
        let (answered, rejected, called) = Default::default();
        Self { answered, took, rejected, called }
    }
}

impl Requests {
    pub(super) fn call(&self, call: &'static str, status: &'static str) {
        self.called.get_or_create(&Called { call, status }).inc();
    }

    pub(super) fn reject(&self, door: &'static str, reason: &str) {
        let rejected = Rejected { door, reason: reason.to_owned() };
        self.rejected.get_or_create(&rejected).inc();
    }
}

/// Where requests are counted, and the door that each route belongs to.
pub type Measured = (Metrics, fn(&str) -> &'static str);

/// Counts a request, and how long its answer took, and writes it down where that is wanted.
pub async fn measure((metrics, door_of): Measured, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    // Not the address itself, which holds on to all that was read of the request.
    let (verb, path) = (request.method().clone(), Box::<str>::from(request.uri().path()));
    let method = word(&verb);
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let (door, requests) = (door_of(route), &metrics.0.requests);
    if let Some(fault) = response.extensions().get::<Fault>() {
        requests.reject(door, &fault.problem().code);
    }
    let took = Route { door, route: route.to_owned() };
    let elapsed = begun.elapsed();
    requests.took.get_or_create(&took).observe(elapsed.as_secs_f64());
    let Route { route, .. } = took;
    let answered = Answered { door, method, route, status: response.status().as_u16() };
    requests.answered.get_or_create(&answered).inc();
    request_log::write(&verb, &path, &response, elapsed);
    response
}

/// A method, of those that there are.
const fn word(method: &Method) -> &'static str {
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
