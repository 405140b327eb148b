//! What server this is.

use axum::extract::State;
use axum::response::Response;
use crore_wire::api::info::Info;

use super::fault::Fault;
use super::wants::Reply;
use crate::Doors;

/// What server this is, and what it promises.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "info", tag = "server",
    responses((status = 200, description = "Its name, version, durability class and doors.", body = Info)),
)]
pub(super) async fn info(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    Ok(reply.ok(&about(&doors)))
}

/// What server this is.
pub(crate) fn about(doors: &Doors) -> Info {
    Info {
        name: "crore".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        durability: doors.engine().durability().to_string(),
        doors: Doors::NAMES.iter().map(ToString::to_string).collect(),
    }
}
