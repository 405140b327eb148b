//! Queues: what waits there, and their settings.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use crore::store::registry::{QueueSettings, Value};
use crore::store::views::Count;
use crore_core::{Code, Invalid, Name};
use crore_wire::api::job::Wait;
use crore_wire::api::queues::{ChangeQueue, Drained, Queue, Queues};
use crore_wire::api::words;
use crore_wire::words::Period;

use super::body::Read;
use super::fault::Fault;
use super::query::{Query, Segment};
use super::wants::Reply;
use crate::Doors;

/// The largest number that every reader of JSON keeps.
const MOST: u64 = (1 << 53) - 1;

/// All queues that have jobs or settings.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "listQueues", tag = "queues",
    responses((status = 200, description = "The queues, by name.", body = Queues)),
)]
pub(super) async fn list(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    let mut queues: BTreeMap<Name, (QueueSettings, BTreeMap<String, u64>)> = BTreeMap::new();
    for entry in doors.engine().queues().await? {
        if let Value::Queue(settings) = entry.value {
            queues.insert(entry.name, (settings, BTreeMap::new()));
        }
    }
    for count in doors.engine().counts(None).await? {
        add(&mut queues.entry(count.queue.clone()).or_default().1, &count);
    }
    let queues =
        queues.iter().map(|(name, (settings, counts))| shown(name, settings, counts.clone()));
    Ok(reply.ok(&Queues { queues: queues.collect() }))
}

fn add(counts: &mut BTreeMap<String, u64>, count: &Count) {
    let state = serde_json::to_value(words::State::from(count.state)).ok();
    if let Some(state) = state.as_ref().and_then(|state| state.as_str()) {
        *counts.entry(state.to_owned()).or_default() += count.n;
    }
}

fn shown(name: &Name, settings: &QueueSettings, counts: BTreeMap<String, u64>) -> Queue {
    Queue {
        name: name.to_string(),
        paused: settings.paused,
        counts,
        keep_done: Period(settings.keep_done),
        max_done: Some(settings.max_done).filter(|n| *n < u64::MAX),
        keep_dead: Period(settings.keep_dead),
        max_dead: Some(settings.max_dead).filter(|n| *n < u64::MAX),
    }
}

async fn show(doors: &Doors, reply: Reply, queue: &Name) -> Result<Response, Fault> {
    let settings = doors.engine().queue(queue).await?;
    let mut counts = BTreeMap::new();
    for count in doors.engine().counts(Some(queue.clone())).await? {
        add(&mut counts, &count);
    }
    Ok(reply.ok(&shown(queue, &settings, counts)))
}

/// A queue. One that nobody has used yet is empty, and has the usual settings.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue.", body = Queue)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    queue: Segment,
) -> Result<Response, Fault> {
    show(&doors, reply, &queue.name("queue")?).await
}

/// Changes settings of a queue.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "changeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    request_body = ChangeQueue,
    responses((status = 200, description = "The queue as it is now.", body = Queue)),
)]
pub(super) async fn change(
    State(doors): State<Doors>,
    reply: Reply,
    queue: Segment,
    Read { value, .. }: Read<ChangeQueue>,
) -> Result<Response, Fault> {
    let queue = queue.name("queue")?;
    for (field, n) in [("max_done", value.max_done), ("max_dead", value.max_dead)] {
        if n.flatten().is_some_and(|n| n > MOST) {
            let message = format!("at most {MOST} are allowed, or `null` for any number");
            return Err(Invalid::new(Code::CountRange, field, message).into());
        }
    }
    let most = |n: Option<u64>| n.unwrap_or(u64::MAX);
    let change = move |settings: &mut QueueSettings| {
        settings.keep_done = value.keep_done.map_or(settings.keep_done, |keep| keep.0);
        settings.max_done = value.max_done.map_or(settings.max_done, most);
        settings.keep_dead = value.keep_dead.map_or(settings.keep_dead, |keep| keep.0);
        settings.max_dead = value.max_dead.map_or(settings.max_dead, most);
    };
    doors.engine().change_queue(queue.clone(), change).await?;
    show(&doors, reply, &queue).await
}

/// Hands out no more jobs of a queue; those that are running go on.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue as it is now.", body = Queue)),
)]
pub(super) async fn pause(
    State(doors): State<Doors>,
    reply: Reply,
    queue: Segment,
) -> Result<Response, Fault> {
    let queue = queue.name("queue")?;
    doors.engine().pause(queue.clone()).await?;
    show(&doors, reply, &queue).await
}

/// Hands out jobs of a queue again.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue.")),
    responses((status = 200, description = "The queue as it is now.", body = Queue)),
)]
pub(super) async fn resume(
    State(doors): State<Doors>,
    reply: Reply,
    queue: Segment,
) -> Result<Response, Fault> {
    let queue = queue.name("queue")?;
    doors.engine().resume(queue.clone()).await?;
    show(&doors, reply, &queue).await
}

/// Pauses a queue, and waits as long as asked until none of its jobs runs.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/drain", operation_id = "drainQueue", tag = "queues",
    params(("queue" = crore_wire::api::Name, Path, description = "The queue."), Wait),
    responses((status = 200, description = "Whether it is drained. It stays paused.", body = Drained)),
)]
pub(super) async fn drain(
    State(doors): State<Doors>,
    reply: Reply,
    queue: Segment,
    Query(ask): Query<Wait>,
) -> Result<Response, Fault> {
    let queue = queue.name("queue")?;
    // Whoever is answered knows that: it does not depend on who is faster below.
    doors.engine().pause(queue.clone()).await?;
    let drained = tokio::select! {
        drained = doors.engine().drain(queue, doors.at_most(ask.wait)) => drained?,
        () = doors.closing() => false,
    };
    Ok(reply.ok(&Drained { drained }))
}
