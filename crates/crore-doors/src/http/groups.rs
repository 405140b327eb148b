//! Groups of jobs. A push creates them.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_wire::api::groups::{Group, Groups, GroupsQuery};

/// Lists groups, newest first. A restricted token sees those that it has created.
#[utoipa::path(
    get, path = "/v1/groups", operation_id = "listGroups", tag = "groups",
    params(GroupsQuery),
    responses((status = 200, description = "A page of groups.", body = Groups)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<GroupsQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_groups(&grant, which).await?))
}

/// Gets a group with its counts.
#[utoipa::path(
    get, path = "/v1/groups/{id}", operation_id = "getGroup", tag = "groups",
    params(("id" = crore_wire::api::Id, Path, description = "The group.")),
    responses((status = 200, description = "The group.", body = Group)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_group(&grant, id.group()?).await?))
}

/// Seals a group: it then ends when all its members have ended. Sealing twice has no effect.
#[utoipa::path(
    post, path = "/v1/groups/{id}/seal", operation_id = "sealGroup", tag = "groups",
    params(("id" = crore_wire::api::Id, Path, description = "The group.")),
    responses((status = 200, description = "The updated group.", body = Group)),
)]
pub(super) async fn seal(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.seal_group(&grant, id.group()?).await?))
}
