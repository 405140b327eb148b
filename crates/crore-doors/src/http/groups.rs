//! Groups: jobs that belong together. They are made by a push.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Reply;
use crore_api::params::PathParam;
use crore_api::{Api, Fault};
use crore_wire::api::groups::Group;

/// A group's counts.
#[utoipa::path(
    get, path = "/v1/groups/{id}", operation_id = "getGroup", tag = "groups",
    params(("id" = crore_wire::api::Id, Path, description = "The group.")),
    responses((status = 200, description = "The group.", body = Group)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_group(id.group()?).await?))
}

/// Seals a group: from now on it ends when its members have. To seal it twice does nothing.
#[utoipa::path(
    post, path = "/v1/groups/{id}/seal", operation_id = "sealGroup", tag = "groups",
    params(("id" = crore_wire::api::Id, Path, description = "The group.")),
    responses((status = 200, description = "The group as it is now.", body = Group)),
)]
pub(super) async fn seal(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.seal_group(id.group()?).await?))
}
