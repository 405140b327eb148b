//! What server this is.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Reply;
use crore_api::{Api, Fault};
use crore_wire::api::info::Info;

/// What server this is, and what it promises.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "info", tag = "server",
    responses((status = 200, description = "Its name, version, durability class and doors.", body = Info)),
)]
pub(super) async fn info(State(api): State<Api>, reply: Reply) -> Result<Response, Fault> {
    Ok(reply.ok(&api.info()))
}
