//! Bulk actions in the background: preview, start, progress, result, cancel.

use axum::extract::State;
use axum::response::Response;
use crore_api::audit::AuditDetails;
use crore_api::body::Decoded;
use crore_api::calls::BulkPreview;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_wire::api::act::ActOnAll;
use crore_wire::api::job::{Job, JobView};
use crore_wire::api::operations::{Operation, OperationQuery, Operations, Preview};
use http::StatusCode;

/// Previews an action: counts the jobs that it would change, up to a bound, and shows some of them. Changes nothing.
#[utoipa::path(
    post, path = "/v1/operations/preview", operation_id = "previewOperation", tag = "operations",
    request_body = ActOnAll,
    responses((status = 200, description = "The effect that the action would have.", body = Preview)),
)]
pub(super) async fn preview(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value, .. }: Decoded<ActOnAll>,
) -> Result<Response, Fault> {
    let BulkPreview { scanned, matched, changed, complete, samples } =
        api.preview_operation(&grant, &value).await?;
    let samples = samples.iter().map(|job| Job::of(job, reply.0, JobView::Summary)).collect();
    Ok(reply.ok(&Preview { scanned, matched, changed, complete, samples }))
}

/// Starts an action on all jobs that match a filter, in the background, and returns its id. Disconnecting does not stop
/// it. At most four run at the same time.
#[utoipa::path(
    post, path = "/v1/operations", operation_id = "startOperation", tag = "operations",
    request_body = ActOnAll,
    responses((status = 202, description = "The operation is running.", body = Operation)),
)]
pub(super) async fn start(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value, .. }: Decoded<ActOnAll>,
) -> Result<Response, Fault> {
    let started = api.start_operation(&grant, &value).await?;
    let mut response = reply.with(StatusCode::ACCEPTED, &started);
    response.extensions_mut().insert(AuditDetails::bulk_action(&value));
    Ok(response)
}

/// Lists the operations that are running, and those that ended: the last hundred, for a week. A restricted token sees
/// its own.
#[utoipa::path(
    get, path = "/v1/operations", operation_id = "listOperations", tag = "operations",
    responses((status = 200, description = "The operations, oldest first.", body = Operations)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
) -> Result<Response, Fault> {
    let operations = api.list_operations(&grant).await?;
    Ok(reply.ok(&Operations { operations }))
}

/// Gets an operation with its progress or result.
#[utoipa::path(
    get, path = "/v1/operations/{id}", operation_id = "getOperation", tag = "operations",
    params(("id" = crore_wire::api::Name, Path, description = "The operation."), OperationQuery),
    responses((status = 200, description = "The operation.", body = Operation)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
    QueryParams(OperationQuery { wait }): QueryParams<OperationQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_operation(&grant, &id.name("id")?, wait).await?))
}

/// Cancels an operation. It ends after the jobs that it is changing; jobs changed before stay changed.
#[utoipa::path(
    post, path = "/v1/operations/{id}/cancel", operation_id = "cancelOperation", tag = "operations",
    params(("id" = crore_wire::api::Name, Path, description = "The operation.")),
    responses((status = 200, description = "The operation was asked to stop, or has ended.", body = Operation)),
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.cancel_operation(&grant, &id.name("id")?).await?))
}
