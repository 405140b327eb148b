//! A job: its definition ([`Spec`], set at push) and its current record ([`Live`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{AwaitedEvent, EventWait};
use crate::fair::FairKey;
use crate::id::{Delivery, GroupId, JobId, OwnerId, Revision};
use crate::index::IndexKey;
use crate::limit::LimitKey;
use crate::name::Name;
use crate::payload::Payload;
use crate::push::NewJob;
use crate::retry::Retry;
use crate::time::{Span, Time};
use crate::unique::Unique;
use crate::version::VersionRequirement;

/// The state of a job. A job that waits to be retried is `Scheduled` with `attempt > 0`; a job that is
/// being cancelled is `Running` with [`Live::stop`] set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waits for other jobs or groups, or for an event.
    Waiting,
    /// Due later.
    Scheduled,
    /// May be claimed now.
    Ready,
    /// Claimed; one delivery holds its lease.
    Running,
    /// Succeeded.
    Done,
    /// Failed for good; kept for inspection, and may be retried by hand.
    Dead,
    /// Cancelled by a caller, by its worker, by a broken dependency, or because its deadline passed or its event was
    /// not sent in time.
    Cancelled,
}

impl State {
    /// Every state, in life-cycle order.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Scheduled,
        Self::Ready,
        Self::Running,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
    ];

    /// Whether this is a final state.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }

    /// The word for the state, in filters, metrics and responses.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A due time, resolved against the store's clock, so that clock skew of callers does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DueTime {
    /// At the time of the write.
    #[default]
    Now,
    /// This long after the time of the write.
    After(Span),
    /// At an instant. An instant in the past means now, so that no caller can jump the queue.
    At(Time),
    /// The previous due time, so that a job that is handed back keeps its position.
    Keep,
}

impl DueTime {
    /// The due time of a job that was due at `before`, written at `now`.
    pub const fn resolve(self, now: Time, before: Time) -> Time {
        match self {
            Self::Now => now,
            Self::After(span) => now.after(span),
            Self::At(time) if time.as_millis() > now.as_millis() => time,
            Self::At(_) => now,
            Self::Keep => before,
        }
    }
}

impl fmt::Display for DueTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::After(span) => write!(f, "+{span}"),
            Self::At(time) => match jiff::Timestamp::from_millisecond(time.as_millis()) {
                Ok(instant) => write!(f, "{instant:.3}"),
                Err(_) => write!(f, "{}", time.as_millis()),
            },
            Self::Keep => f.write_str("unchanged"),
        }
    }
}

/// The deadline for the first start of a new job, resolved against the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartDeadline {
    /// This long after the time of the write.
    Within(Span),
    /// At an instant. A job that is written later than that expires at once.
    At(Time),
}

impl StartDeadline {
    /// The deadline of a job that is written at `now`.
    pub const fn resolve(self, now: Time) -> Time {
        match self {
            Self::Within(span) => now.after(span),
            Self::At(time) => time,
        }
    }
}

/// How a lapsed lease, or the loss of the worker, is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lapse {
    /// As a crash of the worker: costs no attempt; after `quarantine` crashes the job is dead.
    Crash {
        /// Number of crashes after which the job is dead; `None`: no limit.
        quarantine: Option<u32>,
    },
    /// As a failure: costs an attempt and is retried after the policy's delay.
    Failure,
    /// Costs an attempt and is retried at once (Lakh's reservation). The loss of the worker costs none.
    Again,
}

/// Which deliveries may report an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFencing {
    /// Only the current delivery.
    Fenced,
    /// Any delivery: of the reports between two hand-overs of the job the first counts, also after the lease has
    /// expired.
    Any,
}

/// Retention of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultRetention {
    /// Not stored.
    Discard,
    /// Stored for the span, removed by the first read.
    Once(Span),
    /// Stored for the span.
    For(Span),
}

/// Retention of a job that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobRetention {
    /// According to the settings of its queue.
    AsQueue,
    /// Removed by the write that makes it done. A job with a stored result is removed by the read that
    /// takes the result, or else according to the settings of its queue.
    Nothing,
}

/// The target of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DependencyTarget {
    /// A job.
    Job(JobId),
    /// A group.
    Group(GroupId),
}

/// The condition of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DependencyCondition {
    /// The target has ended, whatever its outcome (for a group: all members have run).
    End,
    /// The target has succeeded (for a group: all members have). A dead job holds its dependents, because
    /// it may be retried; a cancelled or removed job breaks them, and they are cancelled too.
    Success,
}

impl DependencyCondition {
    /// Both conditions, the weaker first.
    pub const ALL: [Self; 2] = [Self::End, Self::Success];
}

/// One dependency of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// The job or group to wait for.
    pub on: DependencyTarget,
    /// The condition.
    pub needs: DependencyCondition,
}

/// The definition of a job, as pushed. Only an operator's edit changes it.
///
/// Stored: a new field needs a default, and a changed field a new version of the stored form. `repr(C)`
/// keeps the fields that every claim reads together.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[repr(C)]
pub struct Spec {
    /// Lease duration; `None`: fire and forget, done on delivery.
    pub lease: Option<Span>,
    /// Unique key: at most one job holds it.
    pub unique: Option<Box<Unique>>,
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// Priority; smaller values are delivered first.
    pub priority: i32,
    /// The payload.
    pub payload: Payload,
    /// Retry policy.
    pub retry: Retry,
    /// Timeout of one run; `None`: no timeout.
    pub timeout: Option<Span>,
    /// How a lapsed lease is treated.
    pub lapse: Lapse,
    /// Which deliveries may report an outcome.
    pub reports: ReportFencing,
    /// Retention of the result.
    pub keep: ResultRetention,
    /// Retention of the job when it is done.
    pub retain: JobRetention,
    /// The caller's own id, unique per door.
    pub client_id: Option<Box<ClientId>>,
    /// The limit buckets that a run of this job counts against; computed from the limits at push.
    pub limits: Vec<LimitKey>,
    /// The cost of a start under each of these buckets; `None`: one from each. Computed like the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Arc<[u32]>>,
    /// The group of the job; set by the store.
    pub group: Option<GroupId>,
    /// Dependencies; set by the store.
    pub after: Vec<Dependency>,
    /// The job whose end pushed this one, and the index among that job's follow-ups.
    pub parent: Option<(JobId, u32)>,
    /// Free-form labels to filter by.
    pub labels: BTreeMap<String, String>,
    /// Trace context, propagated from push to run.
    pub trace: Option<Arc<str>>,
    /// The token that pushed the job; `None`: it was pushed without a token, by a schedule, or before jobs had
    /// this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pusher: Option<OwnerId>,
    /// The key under which the job shares its queue; computed from the queue's settings at push. `None`: the queue
    /// is not shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<FairKey>,
    /// The index keys of its payload; computed from the queue's settings at push. `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Arc<[IndexKey]>>,
    /// The follow-up that is pushed if the job is not started by its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expired: Option<Box<NewJob>>,
    /// The versions of its kind that may run the job; `None`: any worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_version: Option<Box<VersionRequirement>>,
    /// The job that this one is a replay of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<JobId>,
    /// The event that the job waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<Box<AwaitedEvent>>,
}

/// Default lease duration.
pub const DEFAULT_LEASE: Span = Span::from_secs(30);

impl Spec {
    /// The limit keys, each with what a start takes from its bucket.
    pub fn charges(&self) -> impl Iterator<Item = (&LimitKey, u32)> {
        let cost = |nth: usize| self.costs.as_ref().and_then(|costs| costs.get(nth)).copied();
        self.limits.iter().enumerate().map(move |(nth, key)| (key, cost(nth).unwrap_or(1)))
    }

    /// A job of `kind` with the defaults of the native doors.
    pub fn new(queue: Name, kind: Name, payload: Payload) -> Self {
        Self {
            queue,
            kind,
            priority: 0,
            payload,
            retry: Retry::default(),
            lease: Some(DEFAULT_LEASE),
            timeout: None,
            lapse: Lapse::Crash { quarantine: Some(3) },
            reports: ReportFencing::Fenced,
            keep: ResultRetention::Discard,
            retain: JobRetention::AsQueue,
            unique: None,
            client_id: None,
            limits: Vec::new(),
            costs: None,
            group: None,
            after: Vec::new(),
            parent: None,
            labels: BTreeMap::new(),
            trace: None,
            pusher: None,
            fair: None,
            index: None,
            on_expired: None,
            worker_version: None,
            replay_of: None,
            wait_for: None,
        }
    }
}

/// A caller's own id for a job, unique within one door.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId {
    /// The namespace of the door: `lakh:mail`, `faktory`, `native`.
    pub door: Name,
    /// The id as the caller wrote it.
    pub id: Arc<str>,
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryEnd {
    /// It reported success.
    Done,
    /// It reported a failure.
    Failed,
    /// It asked to run again later.
    Snoozed,
    /// The worker returned the job unfinished.
    Interrupted,
    /// Its lease expired without a report, or its stream closed.
    Lapsed,
    /// It took longer than the job's timeout.
    TimedOut,
    /// It stopped on request, or the worker cancelled the job.
    Cancelled,
}

/// One delivery in a job's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The delivery.
    pub delivery: Delivery,
    /// When the job was delivered.
    pub started_at: Time,
    /// When the delivery ended.
    pub ended_at: Time,
    /// The worker.
    pub worker: Option<Name>,
    /// How it ended.
    pub ended: DeliveryEnd,
    /// The error message, if it did not succeed.
    pub error: Option<Arc<str>>,
    /// Optional details from the worker's report.
    #[serde(default, skip_serializing_if = "ReportDetails::is_empty")]
    pub details: ReportDetails,
}

/// Something that a caller did to a job by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualAction {
    /// When it was done.
    pub at: Time,
    /// The action.
    pub action: ManualActionType,
    /// The caller.
    pub by: Arc<str>,
    /// The changed values.
    pub detail: Option<Arc<str>>,
}

/// The type of an action by hand. A deleted job has no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManualActionType {
    /// Cancelled, or asked to stop.
    Cancel,
    /// Retried, or made due.
    Retry,
    /// Edited.
    Edit,
}

/// Details of a report that do not decide about its job. They are kept with the delivery.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReportDetails {
    /// When the worker finished, by its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The worker's word for the cause of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

impl ReportDetails {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.finished_at.is_none() && self.reason.is_none()
    }
}

/// Why a job is dead or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Its last allowed attempt failed.
    Exhausted,
    /// It failed, and the report forbade a retry.
    NotRetried,
    /// Its workers crashed too often.
    Quarantined,
    /// A caller cancelled it.
    Asked,
    /// Its worker cancelled it.
    GivenUp,
    /// A dependency can no longer succeed.
    DependencyBroken,
    /// Its record was damaged on disk and cannot be read.
    Damaged,
    /// It was not started by its deadline.
    Expired,
    /// The event that it waited for was not sent in time.
    EventTimedOut,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResult {
    /// The result.
    pub payload: Payload,
    /// When it expires.
    pub until: Time,
    /// Whether the first read removes it.
    pub once: bool,
}

/// Maximum number of deliveries in a job's history, and of its actions by hand.
pub const MAX_HISTORY: usize = 10;

/// The mutable record of a job.
///
/// Stored: a new field needs a default, and a changed field a new version of the stored form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The state.
    pub state: State,
    /// Whether a running job has been asked to stop.
    pub stop: bool,
    /// Whether the job has been counted as run in its group.
    pub counted: bool,
    /// Whether a dependency can no longer succeed.
    pub broken: bool,
    /// Number of open dependencies.
    pub waits: u32,
    /// The latest delivery.
    pub delivery: Delivery,
    /// Version of the record.
    pub revision: Revision,
    /// Deliveries that count against the maximum, including the current one.
    pub attempt: u32,
    /// Deliveries that ended with a crash of their worker.
    pub crashes: u32,
    /// When it was pushed.
    pub pushed_at: Time,
    /// When it may start; also the order among jobs of the same priority.
    pub due: Time,
    /// The deadline for its first start. The first start removes it, and so does a retry by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The progress of its wait for an event; `None`: it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<EventWait>>,
    /// When the latest delivery started.
    pub started_at: Time,
    /// When the current lease ends.
    pub lease_until: Time,
    /// When the job ended.
    pub ended_at: Option<Time>,
    /// The current or last worker.
    pub worker: Option<Name>,
    /// Why it is dead or cancelled.
    pub why: Option<EndReason>,
    /// Ended deliveries, newest first, at most [`MAX_HISTORY`].
    pub history: Vec<Attempt>,
    /// Actions by hand, newest first, at most [`MAX_HISTORY`].
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub actions: Box<[ManualAction]>,
    /// The stored result.
    pub result: Option<Box<StoredResult>>,
}

/// A stored job. Cloning shares the spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The id.
    pub id: JobId,
    /// The definition.
    pub spec: Arc<Spec>,
    /// The mutable record.
    pub live: Live,
}

/// The version of a job that a decision was based on. A guarded write applies only if the job still
/// matches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The state.
    pub state: State,
    /// The latest delivery; never reused, not even across a crash.
    pub delivery: Delivery,
    /// The revision.
    pub revision: Revision,
    /// When the lease ends, if the decision depends on it. A renewal does not change the revision, so it
    /// makes no report stale, but it invalidates a decision that the lease has lapsed.
    pub lease_until: Option<Time>,
}

impl Live {
    /// The error of the newest delivery that has one.
    pub fn newest_error(&self) -> Option<&Arc<str>> {
        self.history.iter().find_map(|attempt| attempt.error.as_ref())
    }
}

impl Job {
    /// The current version of the job, for a guarded write.
    pub const fn seen(&self) -> Seen {
        self.live.seen()
    }

    /// The stored result, unless it has expired.
    pub fn result_at(&self, now: Time) -> Option<&StoredResult> {
        self.live.result.as_deref().filter(|kept| now < kept.until)
    }
}
