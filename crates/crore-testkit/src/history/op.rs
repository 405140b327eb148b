//! Recorded operations.

use crore_core::job::{JobRetention, Lapse, ReportFencing, ResultRetention};
use crore_core::limit::LimitKey;
use crore_core::push::{GroupRef, NewDependency};
use crore_core::retry::Retry;
use crore_core::schedule::{Missed, Timing};
use crore_core::unique::Unique;
use crore_core::version::{KindVersions, VersionRequirement};
use crore_core::{Delivery, JobId, Name, NewJob, Span, Time};
use serde::{Deserialize, Serialize};

use super::PayloadHash;
pub use crore_core::job::{DueTime, StartDeadline};

/// The operation of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", content = "a", rename_all = "kebab-case")]
pub enum RecordedOp {
    /// Pushes one atomic batch of jobs. Response: [`super::RecordedResponse::Pushed`].
    Push {
        /// Number of new groups in the batch.
        #[serde(default)]
        groups: usize,
        /// The jobs.
        items: Vec<RecordedItem>,
    },
    /// Fetches ready jobs. Response: [`super::RecordedResponse::Fetched`].
    Fetch {
        /// The queues.
        queues: Vec<Name>,
        /// The kinds. `None`: all kinds.
        #[serde(default)]
        kinds: Option<Vec<Name>>,
        /// Versions of kinds that the worker runs.
        #[serde(default, skip_serializing_if = "KindVersions::is_empty")]
        versions: KindVersions,
        /// Maximum number of jobs.
        n: usize,
        /// Whether the queues are emptied one after the other instead of merged.
        #[serde(default)]
        strict: bool,
    },
    /// Renews leases. Response: [`super::RecordedResponse::Renewed`].
    Renew {
        /// The leases.
        leases: Vec<RecordedLease>,
    },
    /// Reports the outcome of a delivery. Response: [`super::RecordedResponse::Reported`].
    Report {
        /// The job.
        id: JobId,
        /// The delivery. `None` where the protocol does not carry it.
        delivery: Option<Delivery>,
        /// The outcome.
        outcome: RecordedOutcome,
        /// Jobs to push if this makes the job done.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on_done: Vec<RecordedItem>,
        /// Jobs to push if this makes the job dead.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on_dead: Vec<RecordedItem>,
    },
    /// An admin action on a job. Response: [`super::RecordedResponse::Changed`].
    Admin {
        /// The job.
        id: JobId,
        /// The action.
        want: AdminAction,
    },
    /// An upkeep decision of the engine about a job. Only harnesses that drive the upkeep themselves record
    /// these; they make some checks sharper, and no check needs them. Response: [`super::RecordedResponse::Changed`].
    Notice {
        /// The job.
        id: JobId,
        /// The delivery it concerns, if any.
        delivery: Option<Delivery>,
        /// The decision.
        what: UpkeepDecision,
    },
    /// Takes a result, or reads one that is kept for several readers. Response: [`super::RecordedResponse::Result`].
    TakeResult {
        /// The job.
        id: JobId,
    },
    /// Reads a job. Response: [`super::RecordedResponse::Job`].
    Get {
        /// The job.
        id: JobId,
    },
    /// Accounts for ticks of a schedule. Response: [`super::RecordedResponse::Ticked`].
    Tick {
        /// The schedule.
        schedule: Name,
        /// The last tick accounted for by this call.
        cursor: Time,
        /// The tick of each item, in the order of the items.
        fire: Vec<Time>,
        /// The jobs.
        items: Vec<RecordedItem>,
    },
    /// Sets or removes definitions, each on its own. Response: [`super::RecordedResponse::Defined`].
    Define {
        /// The definitions.
        entries: Vec<RecordedDefinition>,
    },
    /// Lists some or all jobs. Only the mapping from id to payload is recorded, not the states, so a harness
    /// may record it whenever it learns a mapping. Response: [`super::RecordedResponse::Listed`].
    List,
    /// Counts jobs. Response: [`super::RecordedResponse::Counts`].
    Counts,
}

/// A job to push, as its caller specified it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedItem {
    /// The caller's own sequence number.
    pub seq: u64,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Priority; smaller first.
    pub priority: i32,
    /// When it is due.
    pub due: DueTime,
    /// Its retry policy.
    pub retry: Retry,
    /// Its lease. `None`: done on delivery.
    pub lease: Option<Span>,
    /// Timeout of one run. `None`: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Effect of a lapsed lease.
    pub lapse: Lapse,
    /// Which deliveries may report.
    pub reports: ReportFencing,
    /// How long its result is kept.
    pub keep: ResultRetention,
    /// Whether it is retained when done.
    pub retain: JobRetention,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// The group that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupRef>,
    /// Its dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<NewDependency>,
    /// The buckets that it counts against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitKey>,
    /// The cost of a start under each of them; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<std::sync::Arc<[u32]>>,
    /// The deadline for its first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<StartDeadline>,
    /// The follow-up that is pushed if it misses its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expired: Option<Box<Self>>,
    /// The versions of its kind that may run it. `None`: any worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_version: Option<VersionRequirement>,
    /// Whether it waits for an event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_event: bool,
    /// Its payload.
    pub payload: PayloadHash,
}

impl RecordedItem {
    /// Records a new job.
    pub fn of(seq: u64, job: &NewJob) -> Self {
        let spec = &job.spec;
        Self {
            seq,
            queue: spec.queue.clone(),
            kind: spec.kind.clone(),
            priority: spec.priority,
            due: job.due,
            retry: spec.retry,
            lease: spec.lease,
            timeout: spec.timeout,
            lapse: spec.lapse,
            reports: spec.reports,
            keep: spec.keep,
            retain: spec.retain,
            unique: spec.unique.as_deref().cloned(),
            group: job.group,
            after: job.after.clone(),
            limits: spec.limits.clone(),
            costs: spec.costs.clone(),
            deadline: job.deadline,
            on_expired: spec.on_expired.as_ref().map(|next| Box::new(Self::of(seq, next))),
            worker_version: spec.worker_version.as_deref().copied(),
            waits_for_event: spec.wait_for.is_some(),
            payload: PayloadHash::of(&spec.payload),
        }
    }
}

/// A lease to renew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLease {
    /// The job.
    pub id: JobId,
    /// The delivery that holds it.
    pub delivery: Delivery,
    /// Duration from now. `None`: the lease of the job's spec.
    pub span: Option<Span>,
}

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedOutcome {
    /// Success.
    Done {
        /// Its result.
        result: Option<PayloadHash>,
    },
    /// Failure.
    Failed {
        /// Whether and when to retry.
        again: RecordedRetry,
        /// Machine-readable details of the failure, kept like a result if the job dies of it.
        detail: Option<PayloadHash>,
    },
    /// Retry after this long, without counting an attempt.
    Snooze(Span),
    /// Cancelled by the worker, or stopped on request.
    Cancel,
    /// Handed back unfinished, without counting an attempt.
    Interrupted,
}

/// Whether and when to try again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedRetry {
    /// By the job's retry policy.
    ByPolicy,
    /// After this long.
    After(Span),
    /// Not at all.
    Never,
}

/// An admin action on a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminAction {
    /// Cancel it, or ask it to stop.
    Cancel,
    /// Run it again, or now.
    Retry,
    /// Delete it.
    Delete,
    /// Change it. Fields that are `None` stay.
    Edit {
        /// Another queue.
        queue: Option<Name>,
        /// Another priority.
        priority: Option<i32>,
        /// Another time.
        due: Option<DueTime>,
        /// Other buckets.
        limits: Option<Vec<LimitKey>>,
    },
}

/// An upkeep decision about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpkeepDecision {
    /// A lease ended without a report.
    Lapsed,
    /// Its worker announced its departure before the lease ended.
    Left,
    /// A run exceeded its timeout.
    TimedOut,
    /// A job without a lease was delivered.
    HandedOver,
    /// A dependency can no longer succeed.
    Broken,
    /// It was not started by its deadline.
    Expired,
    /// The event that it waited for was not sent in time.
    EventTimedOut,
}

/// A definition to set or to remove.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedDefinition {
    /// The name of the limit, queue or schedule.
    pub name: Name,
    /// The new definition.
    pub to: DefinitionContent,
    /// How long it holds. `None`: forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
}

/// The new content of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefinitionContent {
    /// A limit. The jobs that it covers carry its key.
    Limit {
        /// Maximum number of jobs running at once.
        concurrency: Option<u32>,
        /// Maximum rate of starts.
        rate: Option<RecordedRate>,
    },
    /// The limit is removed.
    NoLimit,
    /// Settings of a queue.
    Queue(RecordedQueueSettings),
    /// The settings are removed; defaults apply.
    NoQueue,
    /// A schedule.
    Schedule {
        /// When it fires.
        timing: Timing,
        /// Handling of missed ticks.
        missed: Missed,
        /// The last tick accounted for.
        cursor: Time,
        /// Whether it is paused.
        paused: bool,
    },
    /// The schedule is removed.
    NoSchedule,
    /// Any other entry of a registry; it does not affect jobs.
    Other,
}

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRate {
    /// Number of jobs per span.
    pub count: u32,
    /// The span.
    pub every: Span,
    /// Maximum burst.
    pub burst: u32,
    /// Whether it counts the costs of jobs.
    #[serde(default)]
    pub counts_costs: bool,
}

/// Settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedQueueSettings {
    /// Whether its jobs are withheld.
    pub paused: bool,
    /// How long done and cancelled jobs are kept.
    pub keep_done: Span,
    /// Maximum number of done jobs and of cancelled jobs that are kept.
    pub max_done: u64,
    /// How long dead jobs are kept.
    pub keep_dead: Span,
    /// Maximum number of dead jobs that are kept.
    pub max_dead: u64,
}

impl Default for RecordedQueueSettings {
    fn default() -> Self {
        const DAY: Span = Span::from_secs(24 * 60 * 60);
        Self {
            paused: false,
            keep_done: DAY,
            max_done: 100_000,
            keep_dead: DAY.times(180),
            max_dead: u64::MAX,
        }
    }
}
