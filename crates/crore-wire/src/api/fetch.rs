//! Fetching jobs, and keeping their leases.

use crore_core::job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::payload::Said;
use super::words::Encoding;
use super::{DeliveryId, Id, Labels};
use crate::words::{Moment, Period};
use crate::{Format, Raw};

/// How several queues are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By priority, due time and id over all of them.
    #[default]
    Merged,
    /// The first queue as long as it has any, then the second, and so on.
    Strict,
}

/// What a fetch asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// From which queues.
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<super::Name>)]
    pub queues: Vec<String>,
    /// Only these kinds; any, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 1000, value_type = Option<Vec<super::Name>>)]
    pub kinds: Option<Vec<String>>,
    /// At most so many, 1 to 1000; 1 unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub n: Option<usize>,
    /// How long to wait for the first one, if there is none; not at all, unless told otherwise, and not
    /// longer than a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Period>,
    /// Who asks: a name of your own for each process, new whenever it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Name>)]
    pub worker: Option<String>,
    /// A lease of at least this length instead of the job's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Period>,
    /// How several queues are merged.
    #[serde(default)]
    pub order: Order,
}

/// What a fetch gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fetched {
    /// The jobs, each under a lease; none, if there was none in time.
    pub jobs: Vec<Delivered>,
}

/// A job that was handed over. `id` and `delivery` are what its renewals and its report name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivered {
    /// The job.
    pub id: Id,
    /// The number of this hand-over.
    pub delivery: DeliveryId,
    /// Its queue.
    pub queue: String,
    /// What is to be done.
    pub kind: String,
    /// Any value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The payload in Base64, if it cannot be said as a value in this encoding.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_base64: Option<String>,
    /// What the payload was pushed as.
    pub encoding: Encoding,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How many there are; without it, any number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_attempts: Option<u32>,
    /// Its priority.
    pub priority: i32,
    /// When it was pushed.
    pub pushed_at: Moment,
    /// Since when it could have run.
    pub due: Moment,
    /// When the lease ends, unless it is renewed.
    pub lease_until: Moment,
    /// How long this run may take.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<Period>,
    /// Free marks.
    pub labels: Labels,
    /// Trace context: a `traceparent`, and after a space the `tracestate`, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<String>,
}

impl Delivered {
    /// A job, as it is handed over in a body of this format.
    pub fn of(job: &job::Job, format: Format) -> Self {
        let (spec, live) = (&job.spec, &job.live);
        let payload = Said::of(&spec.payload, format);
        Self {
            id: job.id.into(),
            delivery: live.delivery.into(),
            queue: spec.queue.to_string(),
            kind: spec.kind.to_string(),
            payload: payload.value,
            payload_base64: payload.base64,
            encoding: spec.payload.encoding.into(),
            attempt: live.attempt,
            max_attempts: spec.retry.max_attempts,
            priority: spec.priority,
            pushed_at: Moment(live.pushed_at),
            due: Moment(live.due),
            lease_until: Moment(live.lease_until),
            timeout: spec.timeout.map(Period),
            labels: Labels(spec.labels.clone()),
            trace: spec.trace.as_ref().map(ToString::to_string),
        }
    }
}

/// Leases to extend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The deliveries.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "crate::object::list")]
    pub jobs: Vec<Held>,
    /// For how long from now; as long as each job says, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Period>,
}

/// A delivery that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The job.
    pub id: Id,
    /// The number of the hand-over.
    pub delivery: DeliveryId,
}

/// What became of leases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// One answer for each, in order.
    pub jobs: Vec<Lease>,
}

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum Lease {
    /// It ends then.
    Renewed {
        /// When.
        until: Moment,
        /// Whether the job was asked to stop.
        stop: bool,
    },
    /// The job is another's by now, or has ended: let it be.
    Stale,
}
