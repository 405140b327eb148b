//! Rate and concurrency limits.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::if_match::IfMatch;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::limits::{Limit, Limits, SetLimit};

/// Lists all limits.
#[utoipa::path(
    get, path = "/v1/limits", operation_id = "listLimits", tag = "limits",
    responses((status = 200, description = "The limits, by name.", body = Limits)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_limits(&grant).await?))
}

/// Gets a limit.
#[utoipa::path(
    get, path = "/v1/limits/{name}", operation_id = "getLimit", tag = "limits",
    params(("name" = crore_wire::api::Name, Path, description = "The limit.")),
    responses((status = 200, description = "The limit.", body = Limit)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    Ok(api.get_limit(&grant, &name.name("limit")?).await?.response(reply))
}

/// Creates or replaces a limit. It applies from the next fetch on, also to jobs that are already waiting.
#[utoipa::path(
    put, path = "/v1/limits/{name}", operation_id = "setLimit", tag = "limits",
    params(("name" = crore_wire::api::Name, Path, description = "The limit."), ("If-Match" = Option<String>, Header, description = "Change it only if its `ETag` is this one, otherwise 412.")),
    request_body = SetLimit,
    responses((status = 200, description = "The updated limit.", body = Limit)),
)]
pub(super) async fn set(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    (name, if_match): (PathParam, IfMatch),
    Decoded { value, .. }: Decoded<SetLimit>,
) -> Result<Response, Fault> {
    let set = api.set_limit(&grant, name.name("limit")?, &value.limit, &if_match).await?;
    Ok(set.response(reply))
}

/// Deletes a limit, if it exists.
#[utoipa::path(
    delete, path = "/v1/limits/{name}", operation_id = "deleteLimit", tag = "limits",
    params(("name" = crore_wire::api::Name, Path, description = "The limit.")),
    responses((status = 204, description = "The limit was deleted, or there was none.")),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    grant: Grant,
    name: PathParam,
) -> Result<Response, Fault> {
    api.delete_limit(&grant, name.name("limit")?).await?;
    Ok(Responder::no_content())
}
