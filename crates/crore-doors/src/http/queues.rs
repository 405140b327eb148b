//! Queues: their counts and settings.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault};
use crore_wire::api::job::WaitQuery;
use crore_wire::api::queues::{ChangeQueue, Drained, Queue, Queues, QueuesQuery};

/// Lists queues that have jobs or settings, by name.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "listQueues", tag = "queues",
    params(QueuesQuery),
    responses((status = 200, description = "A page of queues, by name.", body = Queues)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    reply: Responder,
    QueryParams(which): QueryParams<QueuesQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_queues(which).await?))
}

/// Gets a queue. An unused queue is empty and has the default settings.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue.", body = Queue)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_queue(&queue.name("queue")?).await?))
}

/// Changes the settings of a queue.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "changeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    request_body = ChangeQueue,
    responses((status = 200, description = "The updated queue.", body = Queue)),
)]
pub(super) async fn change(
    State(api): State<Api>,
    reply: Responder,
    queue: PathParam,
    Decoded { value, .. }: Decoded<ChangeQueue>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.change_queue(&queue.name("queue")?, value).await?))
}

/// Pauses a queue: its jobs are not delivered. Running jobs continue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The updated queue.", body = Queue)),
)]
pub(super) async fn pause(
    State(api): State<Api>,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.pause_queue(&queue.name("queue")?).await?))
}

/// Resumes a queue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The updated queue.", body = Queue)),
)]
pub(super) async fn resume(
    State(api): State<Api>,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.resume_queue(&queue.name("queue")?).await?))
}

/// Pauses a queue and waits, up to `wait`, until none of its jobs is running.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/drain", operation_id = "drainQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue."), WaitQuery),
    responses((status = 200, description = "Whether the queue is drained. It stays paused.", body = Drained)),
)]
pub(super) async fn drain(
    State(api): State<Api>,
    reply: Responder,
    queue: PathParam,
    QueryParams(query): QueryParams<WaitQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.drain_queue(queue.name("queue")?, query.wait).await?))
}
