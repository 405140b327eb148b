//! The request log: a line for each request: at the level `debug`, or `warn` if the server failed it.
//!
//! It says who asked for what and what came of it; never a body, a header, or what stands behind a question mark.

use std::time::Duration;

use axum::response::Response;
use crore_core::Code;
use http::Method;
use tracing::Level;

use crate::Fault;
use crate::access::{Who, redacted};
use crate::status::answered;

/// How many characters of a path are written.
const LONGEST: usize = 256;

/// Who made a request: put into its answer where a line will be written.
#[derive(Debug, Clone)]
struct By(String);

/// Whether all requests are written down.
fn is_wordy() -> bool {
    tracing::enabled!(target: "crore::requests", Level::DEBUG)
}

/// Whether the server failed a request. That it takes nothing new while it stops is no failure.
fn is_failed(response: &Response) -> bool {
    let is_stopping = |fault: &Fault| fault.problem().code == Code::Stopping.as_str();
    answered(response) >= 500 && !response.extensions().get().is_some_and(is_stopping)
}

/// Notes who made a request, if that will be written down.
pub fn by(response: &mut Response, who: &Who) {
    if is_wordy() || is_failed(response) {
        response.extensions_mut().insert(By(who.to_string()));
    }
}

/// Writes down what was answered to a request.
pub fn write(method: &Method, path: &str, response: &Response, took: Duration) {
    let is_failed = is_failed(response) && path != "/readyz";
    if !is_failed && !is_wordy() {
        return;
    }
    let path: String = redacted(path).chars().take(LONGEST).collect();
    let status = answered(response);
    let ms = (took.as_secs_f64() * 10_000.0).round() / 10.0;
    let by = response.extensions().get::<By>().map_or("unknown", |By(who)| who);
    let code = response.extensions().get::<Fault>().map(|fault| &*fault.problem().code);
    if is_failed {
        tracing::warn!(target: "crore::requests", %method, path, status, ms, by, code, "failed");
    } else {
        tracing::debug!(target: "crore::requests", %method, path, status, ms, by, code, "answered");
    }
}
