//! A job as delivered to a worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use crore_core::job::Job;
use crore_core::{Delivery, Encoding, EventWait, JobId, Name, Span, Time};

use super::{DeliveryRef, HandlerRevision};

/// A job as delivered to a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDelivery {
    /// The job.
    pub id: JobId,
    /// Number of the delivery.
    pub delivery: Delivery,
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// The payload. Cloning shares the bytes.
    pub payload: Bytes,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Maximum number of attempts; `None`: unlimited.
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
    /// W3C trace context.
    pub trace: Option<String>,
    /// The handler, for a worker that runs handlers.
    pub handler: Option<JobHandler>,
    /// The event that the job waited for; `None` also after a time-out.
    pub event: Option<DeliveredEvent>,
}

/// The event that a delivered job has received.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveredEvent {
    /// The name.
    pub name: Name,
    /// When it was sent.
    pub sent_at: Time,
    /// The payload. Cloning shares the bytes.
    pub payload: Bytes,
    /// Encoding of the payload.
    pub encoding: Encoding,
}

impl DeliveredEvent {
    fn of(job: &Job) -> Option<Self> {
        let received = job.live.event.as_deref().and_then(EventWait::received)?;
        let payload = received.payload.as_ref()?;
        Some(Self {
            name: job.spec.wait_for.as_ref()?.name.clone(),
            sent_at: received.sent_at,
            payload: Bytes::from_owner(Arc::clone(&payload.bytes)),
            encoding: payload.encoding,
        })
    }
}

/// Handler of a delivered job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobHandler {
    /// The handler at its current revision, shared by all its jobs.
    pub handler: Arc<HandlerRevision>,
    /// Whether the runner is pooled.
    pub pooled: bool,
}

impl JobDelivery {
    /// Converts a job, without its handler.
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
            event: DeliveredEvent::of(job),
        }
    }

    /// The delivery.
    pub const fn held(&self) -> DeliveryRef {
        DeliveryRef { id: self.id, delivery: self.delivery }
    }
}
