//! Acts of people: cancel, retry, delete and change, of one job or of all that match.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use crore::act::Act;
use crore_api::audit::About;
use crore_api::body::Decoded;
use crore_api::calls::{self, BulkAct};
use crore_api::negotiation::{Accept, Reply};
use crore_api::params::PathParam;
use crore_api::{Api, Fault};
use crore_core::JobId;
use crore_wire::api::act as wire;

use super::events;

/// Changes where or when a job runs; one that is running cannot be changed.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", operation_id = "changeJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    request_body = wire::Change,
    responses((status = 200, description = "It is changed.", body = wire::Acted)),
)]
pub(super) async fn change(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
    Decoded { value, .. }: Decoded<wire::Change>,
) -> Result<Response, Fault> {
    one(&api, reply, id.job()?, &calls::change(&value)?).await
}

/// Removes a job; one that is running cannot be removed.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "deleteJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "It is gone.", body = wire::Acted)),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
) -> Result<Response, Fault> {
    one(&api, reply, id.job()?, &Act::Delete).await
}

/// Cancels a job; one that is running is asked to stop.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", operation_id = "cancelJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "It is cancelled, or asked to stop.", body = wire::Acted)),
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
) -> Result<Response, Fault> {
    one(&api, reply, id.job()?, &Act::Cancel).await
}

/// Runs a job again, or now.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", operation_id = "retryJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "It will run.", body = wire::Acted)),
)]
pub(super) async fn retry(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
) -> Result<Response, Fault> {
    one(&api, reply, id.job()?, &Act::Retry).await
}

async fn one(api: &Api, reply: Reply, id: JobId, act: &Act) -> Result<Response, Fault> {
    let state = api.act_on_job(id, act).await?.map(Into::into);
    Ok(reply.ok(&wire::Acted { id: id.into(), state }))
}

/// Does something with all jobs that match, a thousand at a time.
///
/// With `dry_run` it is only counted how many there are. Whoever accepts `text/event-stream` hears how far
/// it has come: events named `progress`, and `done` at the end; whoever leaves ends it there.
#[utoipa::path(
    post, path = "/v1/jobs/act", operation_id = "actOnAll", tag = "jobs",
    request_body = wire::ActOnAll,
    responses((status = 200, description = "How many there were, and with how many it was done.", content(
        (wire::Progress = "application/json"),
        (String = "text/event-stream"),
    ))),
)]
pub(super) async fn act_on_all(
    State(api): State<Api>,
    accept: Accept,
    Decoded { value, .. }: Decoded<wire::ActOnAll>,
) -> Result<Response, Fault> {
    let bulk = BulkAct::try_from(&value)?;
    let about = About::many(&value);
    let mut response = if accept.events {
        events::progress(&api, bulk).into_response()
    } else {
        Reply(accept.format_or_json()).ok(&api.act_on_all(&bulk).await?)
    };
    response.extensions_mut().insert(about);
    Ok(response)
}
