//! Fetching jobs and renewing leases.

use std::collections::BTreeMap;

use crore_core::job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::enums::Encoding;
use super::events::ReceivedEvent;
use super::job::JobView;
use super::payload::WirePayload;
use super::{DeliveryId, Id, Labels};
use crate::units::{Moment, Period};
use crate::{Format, Raw};

/// Order of jobs from several queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By priority, due time and id over all queues.
    #[default]
    Merged,
    /// All jobs of the first queue, then those of the second, …
    Strict,
}

/// Request for jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Queues to fetch from.
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<super::Name>)]
    pub queues: Vec<String>,
    /// Only jobs of these kinds. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 1000, value_type = Option<Vec<super::Name>>)]
    pub kinds: Option<Vec<String>>,
    /// Version of each kind that the worker runs: one to three numbers, such as `2.3.1`. The worker gets jobs that require
    /// a version only of these kinds; `kinds`, if given, names each of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Maximum number of jobs, 1 to 1000. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub n: Option<usize>,
    /// Maximum time to wait for the first job, up to one minute. Default: do not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Period>,
    /// Name of the worker: unique per process, and new whenever the process starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Name>)]
    pub worker: Option<String>,
    /// Minimum lease duration; overrides a shorter lease of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Period>,
    /// Order of jobs from several queues.
    #[serde(default)]
    pub order: Order,
}

/// Fetched jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fetched {
    /// The jobs, each with a lease; empty if none was available in time.
    pub jobs: Vec<Delivered>,
}

/// A delivered job. Renewals and the report refer to it by `id` and `delivery`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivered {
    /// The job.
    pub id: Id,
    /// Number of this delivery.
    pub delivery: DeliveryId,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The payload, any value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The payload in Base64, if it cannot be represented as a value in this format.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_base64: Option<String>,
    /// Encoding in which the payload was pushed.
    pub encoding: Encoding,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Maximum number of attempts; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_attempts: Option<u32>,
    /// The priority.
    pub priority: i32,
    /// When it was pushed.
    pub pushed_at: Moment,
    /// When it became due.
    pub due: Moment,
    /// When the lease expires unless renewed.
    pub lease_until: Moment,
    /// Timeout of this run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<Period>,
    /// Labels.
    pub labels: Labels,
    /// Trace context: `traceparent`, optionally followed by a space and `tracestate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<String>,
    /// The event that the job waited for; absent also after a time-out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event: Option<ReceivedEvent>,
}

impl Delivered {
    /// Converts a job for a body of this format.
    pub fn of(job: &job::Job, format: Format) -> Self {
        let (spec, live) = (&job.spec, &job.live);
        let payload = WirePayload::of(&spec.payload, format);
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
            event: ReceivedEvent::of(job, format, JobView::Full),
        }
    }
}

/// Leases to renew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The deliveries.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "crate::object::list")]
    pub jobs: Vec<Held>,
    /// New lease duration, from now. Default: the lease of each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Period>,
}

/// A delivery that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The job.
    pub id: Id,
    /// Number of the delivery.
    pub delivery: DeliveryId,
}

/// Results of renewals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// One result per lease, in order.
    pub jobs: Vec<Lease>,
}

/// Result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum Lease {
    /// Renewed.
    Renewed {
        /// When the lease expires.
        until: Moment,
        /// Whether the job was asked to stop.
        stop: bool,
    },
    /// The delivery no longer holds the lease: abandon the job.
    Stale,
}
