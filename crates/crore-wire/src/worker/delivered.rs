//! A job as it is handed to a worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use crore_core::job::Job;
use crore_core::{Delivery, Encoding, JobId, Name, Span, Time};

use super::{HandlerRevision, Held};

/// A job as it is handed to a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    /// The job.
    pub id: JobId,
    /// The number of the hand-over.
    pub delivery: Delivery,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Its payload. Cloning shares the bytes.
    pub payload: Bytes,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Deliveries that count so far, this one among them.
    pub attempt: u32,
    /// Maximum of attempts; `None`: no maximum.
    pub max_attempts: Option<u32>,
    /// Priority; smaller first.
    pub priority: i32,
    /// Time of the push.
    pub pushed_at: Time,
    /// Due time.
    pub due: Time,
    /// End of the lease.
    pub lease_until: Time,
    /// Timeout of this run.
    pub timeout: Option<Span>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Trace context, as W3C writes it.
    pub trace: Option<String>,
    /// Its handler, for a worker that runs handlers.
    pub handler: Option<Handled>,
}

/// Handler of a delivered job.
#[derive(Debug, Clone, PartialEq)]
pub struct Handled {
    /// The handler at its current revision, shared by all jobs of it.
    pub handler: Arc<HandlerRevision>,
    /// Whether the runner is pooled.
    pub pooled: bool,
}

impl Delivered {
    /// A job as it is handed over, without its handler.
    pub fn of(job: &Job, trace: Option<String>) -> Self {
        let (spec, live) = (&job.spec, &job.live);
        Self {
            id: job.id,
            delivery: live.delivery,
            queue: spec.queue.clone(),
            kind: spec.kind.clone(),
            payload: Bytes::from_owner(Arc::clone(&spec.payload.bytes)),
            encoding: spec.payload.encoding,
            attempt: live.attempt,
            max_attempts: spec.retry.max_attempts,
            priority: spec.priority,
            pushed_at: live.pushed_at,
            due: live.due,
            lease_until: live.lease_until,
            timeout: spec.timeout,
            labels: spec.labels.clone(),
            trace,
            handler: None,
        }
    }

    /// The delivery.
    pub const fn held(&self) -> Held {
        Held { id: self.id, delivery: self.delivery }
    }
}
