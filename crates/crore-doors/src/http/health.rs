//! Whether the server lives, and whether it can be used.

use axum::extract::State;
use axum::response::Response;
use crore_api::Api;
use crore_api::negotiation::Reply;
use crore_wire::Format;
use crore_wire::api::info::Health;
use http::StatusCode;

/// Whether the server lives.
#[utoipa::path(
    get, path = "/livez", operation_id = "livez", tag = "server",
    responses((status = 200, description = "It does.", body = Health)),
)]
pub(super) async fn livez() -> Response {
    Reply(Format::Json).ok(&Health { ok: true, faults: Vec::new() })
}

/// Whether the server can be used: its store is sound and has room, and it is not about to stop.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "server",
    responses(
        (status = 200, description = "It can.", body = Health),
        (status = 503, description = "It cannot.", body = Health),
    ),
)]
pub(super) async fn readyz(State(api): State<Api>) -> Response {
    let health = api.health();
    let status = if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Reply(Format::Json).with(status, &health)
}
