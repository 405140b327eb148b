//! Workers.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::{Api, Fault, Grant, WorkerRequest};
use crore_wire::api::workers::{SetWorker, Workers};

/// Lists all workers.
#[utoipa::path(
    get, path = "/v1/workers", operation_id = "listWorkers", tag = "work",
    responses((status = 200, description = "The workers, by name.", body = Workers)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
) -> Result<Response, Fault> {
    Ok(reply.ok(&Workers { workers: api.list_workers(&grant, reply.0).await? }))
}

/// Registers a worker for display, or renews its registration. Fetching jobs needs no registration.
#[utoipa::path(
    put, path = "/v1/workers/{name}", operation_id = "setWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "The worker.")),
    request_body = SetWorker,
    responses((status = 204, description = "The worker is registered.")),
)]
pub(super) async fn set(
    State(api): State<Api>,
    grant: Grant,
    name: PathParam,
    Decoded { format, value }: Decoded<SetWorker>,
) -> Result<Response, Fault> {
    api.set_worker(&grant, name.name("worker")?, value, format).await?;
    Ok(Responder::no_content())
}

/// Removes the registration of a worker.
#[utoipa::path(
    delete, path = "/v1/workers/{name}", operation_id = "deleteWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "The worker.")),
    responses((status = 204, description = "The registration was removed, or there was none.")),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    grant: Grant,
    name: PathParam,
) -> Result<Response, Fault> {
    api.delete_worker(&grant, name.name("worker")?).await?;
    Ok(Responder::no_content())
}

/// Makes a worker quiet: the server sends it no more jobs. Running jobs continue. Applies to the connected workers with
/// this name or incarnation, while they are connected.
#[utoipa::path(
    post, path = "/v1/workers/{name}/quiet", operation_id = "quietWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "Name or incarnation of the worker.")),
    responses((status = 200, description = "The workers that were asked.", body = Workers)),
)]
pub(super) async fn quiet(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    request(&api, &grant, reply, (&name, WorkerRequest::Quiet)).await
}

/// Sends jobs to a quiet worker again.
#[utoipa::path(
    post, path = "/v1/workers/{name}/resume", operation_id = "resumeWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "Name or incarnation of the worker.")),
    responses((status = 200, description = "The workers that were asked.", body = Workers)),
)]
pub(super) async fn resume(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    request(&api, &grant, reply, (&name, WorkerRequest::Resume)).await
}

/// Asks a worker to finish its jobs and exit. A worker that does not know the request stays connected without new jobs.
/// Workers in the process of the server are refused.
#[utoipa::path(
    post, path = "/v1/workers/{name}/stop", operation_id = "stopWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "Name or incarnation of the worker.")),
    responses((status = 200, description = "The workers that were asked.", body = Workers)),
)]
pub(super) async fn stop(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    name: PathParam,
) -> Result<Response, Fault> {
    request(&api, &grant, reply, (&name, WorkerRequest::Stop)).await
}

async fn request(
    api: &Api,
    grant: &Grant,
    reply: Responder,
    (name, request): (&PathParam, WorkerRequest),
) -> Result<Response, Fault> {
    let workers = api.request_worker(grant, &name.name("worker")?, request, reply.0).await?;
    Ok(reply.ok(&Workers { workers }))
}
