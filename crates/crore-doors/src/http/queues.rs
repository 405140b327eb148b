//! Queues: what waits there, and their settings.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::Decoded;
use crore_api::negotiation::Reply;
use crore_api::params::{PathParam, Query};
use crore_api::{Api, Fault};
use crore_wire::api::job::Wait;
use crore_wire::api::queues::{ChangeQueue, Drained, Queue, Queues};

/// All queues that have jobs or settings.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "listQueues", tag = "queues",
    responses((status = 200, description = "The queues, by name.", body = Queues)),
)]
pub(super) async fn list(State(api): State<Api>, reply: Reply) -> Result<Response, Fault> {
    Ok(reply.ok(&api.list_queues().await?))
}

/// A queue. One that nobody has used yet is empty, and has the usual settings.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue.", body = Queue)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    reply: Reply,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.get_queue(&queue.name("queue")?).await?))
}

/// Changes settings of a queue.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "changeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    request_body = ChangeQueue,
    responses((status = 200, description = "The queue as it is now.", body = Queue)),
)]
pub(super) async fn change(
    State(api): State<Api>,
    reply: Reply,
    queue: PathParam,
    Decoded { value, .. }: Decoded<ChangeQueue>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.change_queue(&queue.name("queue")?, value).await?))
}

/// Hands out no more jobs of a queue; those that are running go on.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue as it is now.", body = Queue)),
)]
pub(super) async fn pause(
    State(api): State<Api>,
    reply: Reply,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.pause_queue(&queue.name("queue")?).await?))
}

/// Hands out jobs of a queue again.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue as it is now.", body = Queue)),
)]
pub(super) async fn resume(
    State(api): State<Api>,
    reply: Reply,
    queue: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.resume_queue(&queue.name("queue")?).await?))
}

/// Pauses a queue, and waits as long as asked until none of its jobs runs.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/drain", operation_id = "drainQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue."), Wait),
    responses((status = 200, description = "Whether it is drained. It stays paused.", body = Drained)),
)]
pub(super) async fn drain(
    State(api): State<Api>,
    reply: Reply,
    queue: PathParam,
    Query(ask): Query<Wait>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.drain_queue(queue.name("queue")?, ask.wait).await?))
}
