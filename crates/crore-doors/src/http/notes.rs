//! What deliveries say while they run.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::params::PathParam;
use crore_api::{Api, Fault};
use crore_wire::api::notes::{NewNotes, Noted, Notes};

/// Keeps notes of running deliveries: how far they are, and log lines.
#[utoipa::path(
    post, path = "/v1/notes", operation_id = "addNotes", tag = "work",
    request_body = NewNotes,
    responses((status = 200, description = "How many were kept.", body = Noted)),
)]
pub(super) async fn add(
    State(api): State<Api>,
    reply: Reply,
    Decoded { value: ask, .. }: Decoded<NewNotes>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.add_notes(ask).await?))
}

/// What the deliveries of a job have said.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/notes", operation_id = "getNotes", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "The newest progress, and the newest log lines.", body = Notes)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_notes(id.job()?).await?))
}
