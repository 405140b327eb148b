//! Fetching jobs, and keeping their leases.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::{Api, Fault};
use crore_wire::api::fetch::{self as wire, Delivered, Fetched};

/// Takes the next jobs, each under a lease.
///
/// If there is none it waits for the first one, as long as asked. Whoever takes longer than the lease
/// renews it, and whoever is done reports so; a job whose lease ends is given to another worker.
#[utoipa::path(
    post, path = "/v1/fetch", operation_id = "fetch", tag = "work",
    request_body = wire::Fetch,
    responses((status = 200, description = "The jobs; none, if there was none in time.", body = Fetched)),
)]
pub(super) async fn fetch(
    State(api): State<Api>,
    reply: Reply,
    Decoded { value: ask, .. }: Decoded<wire::Fetch>,
) -> Result<Response, Fault> {
    let jobs = api.fetch(ask).await?;
    let delivered = |job| Delivered { trace: api.trace_of(job), ..Delivered::of(job, reply.0) };
    Ok(reply.ok(&Fetched { jobs: jobs.iter().map(delivered).collect() }))
}

/// Extends leases, each from now on.
#[utoipa::path(
    post, path = "/v1/renew", operation_id = "renew", tag = "work",
    request_body = wire::Renew,
    responses((status = 200, description = "One answer for each lease, in order.", body = wire::Renewed)),
)]
pub(super) async fn renew(
    State(api): State<Api>,
    reply: Reply,
    Decoded { value: ask, .. }: Decoded<wire::Renew>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.renew(&ask).await?))
}
