//! Groups of errors.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_wire::api::errors::{ErrorGroup, ErrorGroups, ErrorsQuery};

/// Lists groups of errors: failed deliveries whose errors differ only in numbers, ids and quoted parts. The server keeps
/// the thousand groups with the newest errors in memory.
#[utoipa::path(
    get, path = "/v1/errors", operation_id = "listErrors", tag = "errors",
    params(ErrorsQuery),
    responses((status = 200, description = "The groups, the one with the newest error first.", body = ErrorGroups)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<ErrorsQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_errors(&grant, &which)?))
}

/// Gets a group of errors.
#[utoipa::path(
    get, path = "/v1/errors/{fingerprint}", operation_id = "getError", tag = "errors",
    params(("fingerprint" = String, Path, description = "The fingerprint: 16 hexadecimal digits.")),
    responses((status = 200, description = "The group.", body = ErrorGroup)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    fingerprint: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_error(&grant, fingerprint.text())?))
}
