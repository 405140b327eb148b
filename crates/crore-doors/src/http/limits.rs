//! Limits: how many jobs may start or run, and which ones.

use axum::extract::State;
use axum::response::Response;
use crore::store::registry::{Entry, Value};
use crore_wire::api::limits::{Limit, Limits, SetLimit};

use super::body::Read;
use super::fault::Fault;
use super::query::Segment;
use super::wants::Reply;
use crate::Doors;

/// A limit, as it is shown.
pub(crate) fn shown(entry: &Entry) -> Option<Limit> {
    let Value::Limit(limit) = &entry.value else { return None };
    Some(Limit { name: entry.name.to_string(), limit: limit.to_string() })
}

/// All limits.
#[utoipa::path(
    get, path = "/v1/limits", operation_id = "listLimits", tag = "limits",
    responses((status = 200, description = "The limits, by name.", body = Limits)),
)]
pub(super) async fn list(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    let entries = doors.engine().limits().await?;
    Ok(reply.ok(&Limits { limits: entries.iter().filter_map(shown).collect() }))
}

/// A limit.
#[utoipa::path(
    get, path = "/v1/limits/{name}", operation_id = "getLimit", tag = "limits",
    params(("name" = crore_wire::api::Name, Path, description = "The limit.")),
    responses((status = 200, description = "The limit.", body = Limit)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    name: Segment,
) -> Result<Response, Fault> {
    let name = name.name("limit")?;
    let limit = doors.engine().limit(&name).await?.as_ref().and_then(shown);
    Ok(reply.ok(&limit.ok_or_else(|| Fault::missing(format!("limit `{name}`")))?))
}

/// Sets a limit. It holds from the next fetch on, also for jobs that wait already.
#[utoipa::path(
    put, path = "/v1/limits/{name}", operation_id = "setLimit", tag = "limits",
    params(("name" = crore_wire::api::Name, Path, description = "The limit.")),
    request_body = SetLimit,
    responses((status = 200, description = "The limit as it is now.", body = Limit)),
)]
pub(super) async fn set(
    State(doors): State<Doors>,
    reply: Reply,
    name: Segment,
    Read { value, .. }: Read<SetLimit>,
) -> Result<Response, Fault> {
    let name = name.name("limit")?;
    let limit = crore_core::limit::Limit::parse(&value.limit)?;
    let text = limit.to_string();
    doors.engine().set_limit(name.clone(), limit).await?;
    Ok(reply.ok(&Limit { name: name.to_string(), limit: text }))
}

/// Removes a limit, if it is there.
#[utoipa::path(
    delete, path = "/v1/limits/{name}", operation_id = "deleteLimit", tag = "limits",
    params(("name" = crore_wire::api::Name, Path, description = "The limit.")),
    responses((status = 204, description = "It is not there any more.")),
)]
pub(super) async fn delete(State(doors): State<Doors>, name: Segment) -> Result<Response, Fault> {
    doors.engine().remove_limit(name.name("limit")?).await?;
    Ok(Reply::nothing())
}
