//! Server information.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::{Api, Fault};
use crore_wire::api::info::Info;

/// Gets the version, durability and protocols of the server.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "info", tag = "server",
    responses((status = 200, description = "The description of the server.", body = Info)),
)]
pub(super) async fn info(State(api): State<Api>, reply: Responder) -> Result<Response, Fault> {
    Ok(reply.ok(&api.info()))
}
