//! Named events that jobs wait for.

use std::future::ready;

use crore_core::{Code, EventCaps, EventId, Invalid, KeptEvent, Name, NewEvent, Time};

use crate::{Committed, StoreFuture, StorePart};

/// Operations on events. A push looks for the kept event of a job that waits for one
/// ([`Live::await_event`](crore_core::Live::await_event)); a claim and a read by id add the payload of the event that a
/// job has received, unless the job is done.
///
/// By default a store refuses events; it must then also refuse jobs that wait for one.
pub trait Events: StorePart {
    /// Stores an event, which takes its id from the sequence of job ids. It is the event of every stored job that waits
    /// for its name and is not owed an earlier one, and replaces the kept event of its name. It releases no job:
    /// [`Events::release`] does. Durable when the future resolves.
    ///
    /// The store refuses an event that would exceed `caps`, and then changes nothing. An event counts while it is
    /// kept, owed to a job, or received by a job that is not done.
    fn send(&self, _: NewEvent, _: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        refused()
    }

    /// Releases up to `n` jobs that are owed an event, the oldest event first, each with
    /// [`Live::release`](crore_core::Live::release). A job receives one event: the first of its name that was sent after its push.
    /// An interrupted release continues with the next call, also after a crash.
    fn release(&self, _: usize) -> StoreFuture<'_, Released> {
        Box::pin(ready(Ok(Released { count: 0, more: false })))
    }

    /// Returns the kept event of a name: jobs that are pushed now receive it.
    fn event(&self, _: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        Box::pin(ready(Ok(None)))
    }

    /// Returns up to `n` kept events by name, after `after`.
    fn events(&self, _: Option<Name>, _: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Removes the kept event of a name; returns whether there was one. Jobs that are owed it, or have received it,
    /// are not affected. Durable when the future resolves.
    fn remove_event(&self, _: Name) -> StoreFuture<'_, Committed<bool>> {
        refused()
    }
}

fn refused<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    let message = "this store does not support events; use the embedded store";
    Box::pin(ready(Err(Invalid::new(Code::Refused, "event", message).into())))
}

/// Result of sending an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendResult {
    /// Stored.
    Sent {
        /// Its id.
        id: EventId,
        /// The store's time of the write.
        now: Time,
        /// Number of jobs that waited for it.
        waiting: usize,
    },
    /// Not stored: there are too many events, or their payloads are too large in total.
    Full,
}

/// Result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// Number of jobs that received an event.
    pub count: usize,
    /// Whether jobs may be left that are owed an event.
    pub more: bool,
}
