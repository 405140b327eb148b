//! Queues: their counts and settings.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::if_match::IfMatch;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_wire::api::job::WaitQuery;
use crore_wire::api::queues::{ChangeQueue, Drained, Queue, QueueExplanation, Queues, QueuesQuery};

/// Lists queues that have jobs or settings, by name. On a server with many queues the counts are up to half a second old.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "listQueues", tag = "queues",
    params(QueuesQuery),
    responses((status = 200, description = "A page of queues, by name.", body = Queues)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<QueuesQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_queues(&grant, which).await?))
}

/// Gets a queue. An unused queue is empty and has the default settings.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue.", body = Queue)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(api.get_queue(&grant, &queue.name("queue")?).await?.response(reply))
}

/// Changes the settings of a queue.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "changeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue."), ("If-Match" = Option<String>, Header, description = "Change it only if its `ETag` is this one, otherwise 412.")),
    request_body = ChangeQueue,
    responses((status = 200, description = "The updated queue.", body = Queue)),
)]
pub(super) async fn change(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    (queue, if_match): (PathParam, IfMatch),
    Decoded { value, .. }: Decoded<ChangeQueue>,
) -> Result<Response, Fault> {
    let changed = api.change_queue(&grant, &queue.name("queue")?, value, &if_match).await?;
    Ok(changed.response(reply))
}

/// Pauses a queue: its jobs are not delivered. Running jobs continue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The updated queue.", body = Queue)),
)]
pub(super) async fn pause(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(api.pause_queue(&grant, &queue.name("queue")?).await?.response(reply))
}

/// Resumes a queue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The updated queue.", body = Queue)),
)]
pub(super) async fn resume(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(api.resume_queue(&grant, &queue.name("queue")?).await?.response(reply))
}

/// Pauses a queue and waits, up to `wait`, until none of its jobs is running.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/drain", operation_id = "drainQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue."), WaitQuery),
    responses((status = 200, description = "Whether the queue is drained. It stays paused.", body = Drained)),
)]
pub(super) async fn drain(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    queue: PathParam,
    QueryParams(query): QueryParams<WaitQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.drain_queue(&grant, queue.name("queue")?, query.wait).await?))
}

/// Explains why the jobs of a queue wait: in words, and as fields.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/explain", operation_id = "explainQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The reasons.", body = QueueExplanation)),
)]
pub(super) async fn explain(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.explain_queue(&grant, &queue.name("queue")?).await?))
}
