//! Workers that follow a worker. They are numbers here and links of the engine's handlers there: the engine finds the
//! handler of a number when a job ends, so a worker may name others that do not exist yet, are renamed or removed.

use crore_core::Handler;
use crore_core::handler::Follow;
use crore_wire::grpc::jobworkerp::data::WorkerId;

use super::built_in;
use super::workers::{self, Workers};

/// The links of a worker that names these. −1, the built-in worker, is [`BUILT_IN`](crore_core::handler::BUILT_IN).
pub(super) fn links(next_workers: &[WorkerId]) -> Vec<u64> {
    next_workers.iter().map(|id| id.value.cast_unsigned()).collect()
}

/// The numbers of the workers that follow a handler: its links, and the workers that the native API named by kind.
pub(super) fn next_workers(handler: &Handler, workers: &Workers) -> Vec<WorkerId> {
    let named = |follow: &Follow| {
        workers.by_name(follow.kind.as_str()).map(|(_, known)| workers::id(&known.handler))
    };
    let links = handler.links.iter().map(|number| number.cast_signed());
    let all = links.chain(handler.next.iter().filter_map(named));
    all.map(|value| WorkerId { value }).collect()
}

/// An updated worker: fields of the handler that a worker does not have stay as they were.
pub(super) fn updated(data: Handler, before: &Handler) -> Handler {
    let Handler { id, timeout, schedule, formerly, mut on_failure, .. } = before.clone();
    // Whether the built-in worker follows is for the worker's links to say.
    on_failure.retain(|follow| follow.kind.as_str() != built_in::NAME);
    Handler { id, timeout, schedule, formerly, on_failure, ..data }
}
