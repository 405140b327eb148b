//! Liveness and readiness.

use axum::extract::State;
use axum::response::Response;
use crore_api::Api;
use crore_api::negotiation::Responder;
use crore_wire::Format;
use crore_wire::api::info::Health;
use http::StatusCode;

/// Liveness: whether the process responds.
#[utoipa::path(
    get, path = "/livez", operation_id = "livez", tag = "server",
    responses((status = 200, description = "The server is alive.", body = Health)),
)]
pub(super) async fn livez() -> Response {
    Responder(Format::Json).ok(&Health { ok: true, faults: Vec::new() })
}

/// Readiness: whether the store is healthy and has space, and the server is not stopping.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "server",
    responses(
        (status = 200, description = "The server is ready.", body = Health),
        (status = 503, description = "The server is not ready.", body = Health),
    ),
)]
pub(super) async fn readyz(State(api): State<Api>) -> Response {
    let health = api.health();
    let status = if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Responder(Format::Json).with(status, &health)
}
