//! What callers are told.

use crore_core::{Delivery, GroupId, Job, JobId, Name, Span, State, Time};
use serde::{Deserialize, Serialize};

use super::Hash;

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To a push.
    Pushed {
        /// The new groups, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupId>,
        /// One for each item, in order.
        items: Vec<Pushed>,
    },
    /// To a fetch: the jobs, in order.
    Fetched(Vec<Granted>),
    /// To a renewal: one for each lease, in order.
    Renewed(Vec<Renewed>),
    /// To a report.
    Reported(Reported),
    /// To what somebody wants by hand, and to what the engine noticed.
    Changed(Changed),
    /// To a taking: the result, if there was one to be had.
    Result(Option<Hash>),
    /// To a look: the job, if it is there.
    Job(Option<Look>),
    /// To a tick: one for each item in order; none: it was stale, and nothing was written.
    Ticked(Option<Vec<Pushed>>),
    /// To definitions: for each in order whether it was written; if not, it was stale.
    Defined(Vec<bool>),
    /// To a list: jobs, and their payloads.
    Listed(Vec<(JobId, Hash)>),
    /// To a count. Zeros are left out.
    Counts(Vec<Count>),
}

impl Answer {
    /// Whether this says that something was written which is only answered once it is durable. Such
    /// an answer also settles the claims and renewals that were answered before it was asked for,
    /// because stores write in order.
    pub fn is_durable(&self) -> bool {
        let any_new = |items: &[Pushed]| items.iter().any(|item| matches!(item, Pushed::New(_)));
        match self {
            Self::Pushed { groups, items } => !groups.is_empty() || any_new(items),
            Self::Reported(reported) => matches!(reported, Reported::Accepted(_)),
            Self::Changed(changed) => matches!(changed, Changed::Yes | Changed::Asked),
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

/// What became of one pushed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pushed {
    /// It is stored.
    New(JobId),
    /// Its key belongs to this job; it is not stored.
    Duplicate(JobId),
    /// It refers to something that is not there or cannot succeed; it is not stored.
    Broken,
}

/// One job that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The job.
    pub id: JobId,
    /// The queue that it came from.
    pub queue: Name,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Which delivery.
    pub delivery: Delivery,
    /// How long the lease is; none: fire and forget.
    pub lease: Option<Span>,
    /// What was handed over.
    pub payload: Hash,
    /// Its priority.
    pub priority: i32,
    /// Since when it was due.
    pub due: Time,
}

impl Granted {
    /// What is recorded of a claimed job.
    pub fn of(job: &Job) -> Self {
        Self {
            id: job.id,
            queue: job.spec.queue.clone(),
            attempt: job.live.attempt,
            delivery: job.live.delivery,
            lease: job.spec.lease,
            payload: Hash::of(&job.spec.payload),
            priority: job.spec.priority,
            due: job.live.due,
        }
    }
}

/// What became of a lease that was to be extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Renewed {
    /// It holds for this long, counted from when the store saw the call.
    For {
        /// How long.
        span: Span,
        /// Whether the job was asked to stop.
        stop: bool,
    },
    /// It is somebody else's, or nobody's.
    Stale,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reported {
    /// It counts; and what became of the follow-ups that it pushed, in order.
    Accepted(Vec<Pushed>),
    /// It is of a delivery that does not count any more.
    Stale,
    /// There is no such job.
    Unknown,
}

/// What became of what was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Changed {
    /// It is so now.
    Yes,
    /// The job runs, and was asked to stop.
    Asked,
    /// It is not so: the job is not in a state for it, or it was changed meanwhile.
    Refused,
    /// There is no such job.
    Unknown,
}

/// What there is to see of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The state.
    pub state: State,
    /// Attempts so far.
    pub attempt: u32,
    /// The newest delivery.
    pub delivery: Delivery,
    /// The payload.
    pub payload: Hash,
    /// The result, while it is to be had.
    pub result: Option<Hash>,
}

impl Look {
    /// What is recorded of a job that was looked at when the store's time was `now`.
    pub fn of(job: &Job, now: Time) -> Self {
        Self {
            state: job.live.state,
            attempt: job.live.attempt,
            delivery: job.live.delivery,
            payload: Hash::of(&job.spec.payload),
            result: job.result_at(now).map(|kept| Hash::of(&kept.payload)),
        }
    }
}

/// How many jobs of one sort there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Count {
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// The state.
    pub state: State,
    /// How many.
    pub n: u64,
}
