//! Groups: jobs that belong together. They are made by a push.

use axum::extract::State;
use axum::response::Response;
use crore_core::GroupId;
use crore_wire::api::groups::Group;

use super::fault::Fault;
use super::query::Segment;
use super::wants::Reply;
use crate::Doors;

async fn show(doors: &Doors, reply: Reply, id: GroupId) -> Result<Response, Fault> {
    let group = doors.engine().group(id).await?;
    let group = group.ok_or_else(|| Fault::missing(format!("group {id}")))?;
    Ok(reply.ok(&Group::of(id, &group)))
}

/// A group's counts.
#[utoipa::path(
    get, path = "/v1/groups/{id}", operation_id = "getGroup", tag = "groups",
    params(("id" = crore_wire::api::Id, Path, description = "The group.")),
    responses((status = 200, description = "The group.", body = Group)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    show(&doors, reply, id.group()?).await
}

/// Seals a group: from now on it ends when its members have. To seal it twice does nothing.
#[utoipa::path(
    post, path = "/v1/groups/{id}/seal", operation_id = "sealGroup", tag = "groups",
    params(("id" = crore_wire::api::Id, Path, description = "The group.")),
    responses((status = 200, description = "The group as it is now.", body = Group)),
)]
pub(super) async fn seal(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    let id = id.group()?;
    doors.engine().seal(id).await?;
    show(&doors, reply, id).await
}
