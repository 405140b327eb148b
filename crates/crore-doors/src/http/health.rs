//! Whether the server lives, and whether it can be used.

use axum::extract::State;
use axum::response::Response;
use crore::store::Ailment;
use crore_wire::Format;
use crore_wire::api::info::Health;
use http::StatusCode;

use super::wants::Reply;
use crate::Doors;

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
pub(super) async fn readyz(State(doors): State<Doors>) -> Response {
    let mut faults = Vec::new();
    match doors.engine().ailment() {
        Some(Ailment::Poisoned) => faults.push("the store gave up after a failed write".to_owned()),
        Some(Ailment::Full(_)) => faults.push("the store is full".to_owned()),
        None => {}
    }
    if doors.engine().is_stopping() || doors.is_closing() {
        faults.push("the server is stopping".to_owned());
    }
    let health = Health { ok: faults.is_empty(), faults };
    let status = if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Reply(Format::Json).with(status, &health)
}
