//! Cancel, retry, delete and change: for one job, or for all that match a filter.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use crore::actions::JobAction;
use crore_api::audit::AuditDetails;
use crore_api::body::Decoded;
use crore_api::calls::{self, BulkAction};
use crore_api::negotiation::{Accept, Responder};
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Grant};
use crore_core::JobId;
use crore_wire::api::act as wire;

use super::events;

/// Changes the queue, priority or due time of a job. A running job cannot be changed.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", operation_id = "changeJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    request_body = wire::Change,
    responses((status = 200, description = "The job was changed.", body = wire::Acted)),
)]
pub(super) async fn change(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
    Decoded { value, .. }: Decoded<wire::Change>,
) -> Result<Response, Fault> {
    act_on_one((&api, &grant), reply, id.job()?, &calls::change(&value)?).await
}

/// Deletes a job. A running job cannot be deleted.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "deleteJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "The job was deleted.", body = wire::Acted)),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    act_on_one((&api, &grant), reply, id.job()?, &JobAction::Delete).await
}

/// Cancels a job. A running job is asked to stop.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", operation_id = "cancelJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "The job is cancelled, or asked to stop.", body = wire::Acted)),
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    act_on_one((&api, &grant), reply, id.job()?, &JobAction::Cancel).await
}

/// Retries a dead or cancelled job, or runs a scheduled job now.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", operation_id = "retryJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "The job will run.", body = wire::Acted)),
)]
pub(super) async fn retry(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    act_on_one((&api, &grant), reply, id.job()?, &JobAction::Retry).await
}

async fn act_on_one(
    (api, grant): (&Api, &Grant),
    reply: Responder,
    id: JobId,
    act: &JobAction,
) -> Result<Response, Fault> {
    let state = api.act_on_job(grant, id, act).await?.map(Into::into);
    Ok(reply.ok(&wire::Acted { id: id.into(), state }))
}

/// Acts on all jobs that match a filter, a thousand at a time.
///
/// With `dry_run`, jobs are only counted. A client that accepts `text/event-stream` receives `progress` events and a
/// `done` event at the end; disconnecting stops the action.
#[utoipa::path(
    post, path = "/v1/jobs/act", operation_id = "actOnAll", tag = "jobs",
    request_body = wire::ActOnAll,
    responses((status = 200, description = "Number of jobs seen, matched and changed.", content(
        (wire::Progress = "application/json"),
        (String = "text/event-stream"),
    ))),
)]
pub(super) async fn act_on_all(
    State(api): State<Api>,
    grant: Grant,
    accept: Accept,
    Decoded { value, .. }: Decoded<wire::ActOnAll>,
) -> Result<Response, Fault> {
    let bulk = BulkAction::try_from(&value)?;
    let about = AuditDetails::bulk_action(&value);
    let mut response = if accept.events {
        events::progress(&api, &grant, bulk)?.into_response()
    } else {
        Responder(accept.format_or_json()).ok(&api.act_on_all(&grant, bulk).await?)
    };
    response.extensions_mut().insert(about);
    Ok(response)
}
