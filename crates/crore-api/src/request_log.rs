//! Request log: one line per request, at level `debug`, or `warn` if the server failed to handle it. It never
//! contains a body, a header or a query.

use std::time::Duration;

use axum::response::Response;
use crore_core::Code;
use http::Method;
use tracing::Level;

use crate::Fault;
use crate::access::{Identity, redacted};
use crate::status::response_status;

/// Maximum characters of a path in a line.
const MAX_PATH_CHARS: usize = 256;

/// The caller of a request; stored in the extensions of the response if a line will be written.
#[derive(Debug, Clone)]
struct RequestCaller(String);

/// Whether all requests are logged.
fn logs_all() -> bool {
    tracing::enabled!(target: "crore::requests", Level::DEBUG)
}

/// Whether the server failed to handle a request. Refusals during a shutdown do not count.
fn is_failed(response: &Response) -> bool {
    let is_stopping = |fault: &Fault| fault.problem().code == Code::Stopping.as_str();
    response_status(response) >= 500 && !response.extensions().get().is_some_and(is_stopping)
}

/// Records the caller of a request, if it will be logged.
pub fn set_caller(response: &mut Response, who: &Identity) {
    if logs_all() || is_failed(response) {
        response.extensions_mut().insert(RequestCaller(who.to_string()));
    }
}

/// Logs a request and its response.
pub fn write(method: &Method, path: &str, response: &Response, elapsed: Duration) {
    let is_failed = is_failed(response) && path != "/readyz";
    if !is_failed && !logs_all() {
        return;
    }
    let path: String = redacted(path).chars().take(MAX_PATH_CHARS).collect();
    let status = response_status(response);
    let ms = (elapsed.as_secs_f64() * 10_000.0).round() / 10.0;
    let by =
        response.extensions().get::<RequestCaller>().map_or("unknown", |RequestCaller(who)| who);
    let code = response.extensions().get::<Fault>().map(|fault| &*fault.problem().code);
    if is_failed {
        tracing::warn!(target: "crore::requests", %method, path, status, ms, by, code, "request failed");
    } else {
        tracing::debug!(target: "crore::requests", %method, path, status, ms, by, code, "request completed");
    }
}
