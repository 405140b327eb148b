//! Fetching jobs, and renewing their leases.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::fetch::{self as wire, Delivered, Fetched};

/// Fetches the next jobs, each under a lease.
///
/// If no job is ready, the call waits for the first one, up to `wait`. A worker that needs longer than the lease
/// renews it, and reports the outcome when it is done; a job whose lease expires goes to another worker.
#[utoipa::path(
    post, path = "/v1/fetch", operation_id = "fetch", tag = "work",
    request_body = wire::Fetch,
    responses((status = 200, description = "The jobs; empty if none was ready in time.", body = Fetched)),
)]
pub(super) async fn fetch(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value: request, .. }: Decoded<wire::Fetch>,
) -> Result<Response, Fault> {
    let jobs = api.fetch(&grant, request).await?;
    let delivered = |job| Delivered { trace: api.trace_of(job), ..Delivered::of(job, reply.0) };
    Ok(reply.ok(&Fetched { jobs: jobs.iter().map(delivered).collect() }))
}

/// Renews leases, each starting from now.
#[utoipa::path(
    post, path = "/v1/renew", operation_id = "renew", tag = "work",
    request_body = wire::Renew,
    responses((status = 200, description = "One result per lease, in order.", body = wire::Renewed)),
)]
pub(super) async fn renew(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    Decoded { value: request, .. }: Decoded<wire::Renew>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.renew(&grant, &request).await?))
}
