//! Server information.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::{Api, Fault};
use crore_wire::api::info::Info;

/// Server version and guarantees.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "info", tag = "server",
    responses((status = 200, description = "Name, version, durability class and doors.", body = Info)),
)]
pub(super) async fn info(State(api): State<Api>, reply: Responder) -> Result<Response, Fault> {
    Ok(reply.ok(&api.info()))
}
