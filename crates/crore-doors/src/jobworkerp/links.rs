//! Follow-up workers (`next_workers`). They are worker ids here and links of handlers in the engine, which finds
//! the handler of an id when a job ends. A worker may therefore name workers that do not exist yet, or are renamed
//! or removed.

use crore_core::Handler;
use crore_core::handler::FollowUpHandler;
use crore_wire::grpc::jobworkerp::data::WorkerId;

use super::built_in;
use super::workers::{self, WorkerDirectory};

/// The links for these workers. −1, the built-in worker, is [`BUILT_IN_ID`](crore_core::handler::BUILT_IN_ID).
pub(super) fn links(next_workers: &[WorkerId]) -> Vec<u64> {
    next_workers.iter().map(|id| id.value.cast_unsigned()).collect()
}

/// Ids of the workers that follow a handler: its links, and the workers that the native API names by kind.
pub(super) fn next_workers(handler: &Handler, workers: &WorkerDirectory) -> Vec<WorkerId> {
    let named = |follow: &FollowUpHandler| {
        workers.by_name(follow.kind.as_str()).map(|(_, stored)| workers::id(&stored.handler))
    };
    let links = handler.links.iter().map(|number| number.cast_signed());
    let all = links.chain(handler.next.iter().filter_map(named));
    all.map(|value| WorkerId { value }).collect()
}

/// An updated worker: handler fields that a worker does not have keep their values.
pub(super) fn updated(data: Handler, before: &Handler) -> Handler {
    let Handler { id, timeout, schedule, formerly, mut on_failure, .. } = before.clone();
    // The worker's links decide whether the built-in worker follows.
    on_failure.retain(|follow| follow.kind.as_str() != built_in::NAME);
    Handler { id, timeout, schedule, formerly, on_failure, ..data }
}
