//! Progress and log lines of running deliveries.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::notes::{NewNotes, Noted, Notes};

/// Stores notes of running deliveries: progress, and log lines.
#[utoipa::path(
    post, path = "/v1/notes", operation_id = "addNotes", tag = "work",
    request_body = NewNotes,
    responses((status = 200, description = "Number of notes stored.", body = Noted)),
)]
pub(super) async fn add(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value: request, .. }: Decoded<NewNotes>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.add_notes(&grant, request).await?))
}

/// Gets the notes of a job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/notes", operation_id = "getNotes", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "The latest progress, and the latest log lines.", body = Notes)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_notes(&grant, id.job()?).await?))
}
