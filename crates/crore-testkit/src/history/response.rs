//! Recorded responses.

use crore_core::{Delivery, GroupId, Job, JobId, Name, Span, State, Time};
use serde::{Deserialize, Serialize};

use super::PayloadHash;

/// The response to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedResponse {
    /// To a push.
    Pushed {
        /// The new groups, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupId>,
        /// One for each item, in order.
        items: Vec<RecordedPush>,
    },
    /// To a fetch: the jobs, in order.
    Fetched(Vec<RecordedDelivery>),
    /// To a renewal: one for each lease, in order.
    Renewed(Vec<RecordedRenewal>),
    /// To a report.
    Reported(RecordedReport),
    /// To an admin action, or to an upkeep decision of the engine.
    Changed(RecordedChange),
    /// To taking a result: the result, if there is one.
    Result(Option<PayloadHash>),
    /// To a get: the job, if it exists.
    Job(Option<RecordedJob>),
    /// To a tick: one for each item, in order. `None`: the tick was stale and nothing was written.
    Ticked(Option<Vec<RecordedPush>>),
    /// To a define: for each definition, in order, whether it was written. One that was not written was
    /// stale.
    Defined(Vec<bool>),
    /// To a list: jobs, and their payloads.
    Listed(Vec<(JobId, PayloadHash)>),
    /// To a count. Zeros are left out.
    Counts(Vec<RecordedCount>),
}

impl RecordedResponse {
    /// Whether this response confirms a write that the store acknowledges only once it is durable. Stores
    /// write in order, so such a response also makes durable the claims and renewals answered before its call
    /// began.
    pub fn is_durable(&self) -> bool {
        let any_new =
            |items: &[RecordedPush]| items.iter().any(|item| matches!(item, RecordedPush::New(_)));
        match self {
            Self::Pushed { groups, items } => !groups.is_empty() || any_new(items),
            Self::Reported(reported) => matches!(reported, RecordedReport::Accepted(_)),
            Self::Changed(changed) => {
                matches!(changed, RecordedChange::Yes | RecordedChange::Asked)
            }
            Self::Ticked(ticked) => ticked.is_some(),
            Self::Defined(written) => written.contains(&true),
            Self::Fetched(_)
            | Self::Renewed(_)
            | Self::Result(_)
            | Self::Job(_)
            | Self::Listed(_)
            | Self::Counts(_) => false,
        }
    }
}

/// Result for one pushed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedPush {
    /// Stored as this job.
    New(JobId),
    /// Not stored: this job holds its unique key.
    Duplicate(JobId),
    /// Not stored: it refers to a job or group that does not exist or cannot succeed, or joins a sealed group.
    Broken,
}

/// One delivered job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDelivery {
    /// The job.
    pub id: JobId,
    /// The queue it came from.
    pub queue: Name,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Delivery number.
    pub delivery: Delivery,
    /// Length of the lease. `None`: the job is done on delivery.
    pub lease: Option<Span>,
    /// Hash of the delivered payload.
    pub payload: PayloadHash,
    /// Its priority.
    pub priority: i32,
    /// When it became due.
    pub due: Time,
}

impl RecordedDelivery {
    /// Records a claimed job.
    pub fn of(job: &Job) -> Self {
        Self {
            id: job.id,
            queue: job.spec.queue.clone(),
            attempt: job.live.attempt,
            delivery: job.live.delivery,
            lease: job.spec.lease,
            payload: PayloadHash::of(&job.spec.payload),
            priority: job.spec.priority,
            due: job.live.due,
        }
    }
}

/// Result of renewing one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedRenewal {
    /// The lease holds for this long, counted from when the store saw the call.
    For {
        /// Duration.
        span: Span,
        /// Whether the job was asked to stop.
        stop: bool,
    },
    /// The lease belongs to another delivery, or to none.
    Stale,
}

/// Result of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedReport {
    /// Accepted, with the result of each follow-up that it pushed, in order.
    Accepted(Vec<RecordedPush>),
    /// Its delivery no longer counts.
    Stale,
    /// No such job.
    Unknown,
}

/// Result of an admin action or of an upkeep decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedChange {
    /// Applied.
    Yes,
    /// The job runs, and was asked to stop.
    Asked,
    /// Not applied: the job is in the wrong state, or changed in the meantime.
    Refused,
    /// No such job.
    Unknown,
}

/// A job as a get shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedJob {
    /// The state.
    pub state: State,
    /// Attempts so far.
    pub attempt: u32,
    /// The newest delivery.
    pub delivery: Delivery,
    /// The payload.
    pub payload: PayloadHash,
    /// The result, while it is available.
    pub result: Option<PayloadHash>,
}

impl RecordedJob {
    /// Records a job that was read when the store's time was `now`.
    pub fn of(job: &Job, now: Time) -> Self {
        Self {
            state: job.live.state,
            attempt: job.live.attempt,
            delivery: job.live.delivery,
            payload: PayloadHash::of(&job.spec.payload),
            result: job.result_at(now).map(|kept| PayloadHash::of(&kept.payload)),
        }
    }
}

/// Number of jobs of one queue, kind and state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordedCount {
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// The state.
    pub state: State,
    /// Number of jobs.
    pub n: u64,
}
