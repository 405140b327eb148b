//! Server information.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::{Api, Fault};
use crore_wire::api::info::Info;
use crore_wire::api::storage::Storage;

/// Gets the version, durability and protocols of the server.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "info", tag = "server",
    responses((status = 200, description = "The description of the server.", body = Info)),
)]
pub(super) async fn info(State(api): State<Api>, reply: Responder) -> Result<Response, Fault> {
    Ok(reply.ok(&api.info()))
}

/// Gets the sizes of the store, its problems, the free space and the last backup.
#[utoipa::path(
    get, path = "/v1/storage", operation_id = "storage", tag = "server",
    responses((status = 200, description = "The state of the store.", body = Storage)),
)]
pub(super) async fn storage(State(api): State<Api>, reply: Responder) -> Result<Response, Fault> {
    Ok(reply.ok(&api.storage().await?))
}
