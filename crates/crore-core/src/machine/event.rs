//! Input and output of the state machine: events, changes, effects and refusals.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::group::GroupTally;
use crate::id::{Delivery, JobId};
use crate::index::IndexKey;
use crate::job::{
    DeliveryEnd, DueTime, EndReason, ManualActionType, ReportDetails, ResultRetention, Seen, Spec,
};
use crate::limit::{LimitKey, PauseEnd};
use crate::name::Name;
use crate::payload::Payload;
use crate::push::NewJob;
use crate::time::{Span, Time};

/// Something that happened to a job, or that a caller requests.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// A worker or runner reported the outcome of a delivery.
    Finished {
        /// The delivery; `None` where the protocol does not carry it.
        delivery: Option<Delivery>,
        /// The report.
        report: Report,
    },
    /// The lease of a delivery expired without a report.
    Lapsed(Delivery),
    /// The worker disconnected before the lease expired.
    WorkerLost(Delivery),
    /// A delivery took longer than the job's timeout.
    TimedOut(Delivery),
    /// A fire-and-forget job was delivered.
    Delivered(Delivery),
    /// A caller cancels the job; a running job is asked to stop.
    Cancel,
    /// A caller retries a dead or cancelled job, or runs a scheduled one now.
    Retry,
    /// A caller deletes the job. Its group continues without it.
    Delete,
    /// The retention of an ended job is over. If the job did not succeed, its group can no longer succeed.
    Prune,
    /// A caller changes where or when the job runs.
    Edit(JobEdit),
    /// Sets the index keys of the payload, in any state. Nothing else changes.
    Index(Option<Arc<[IndexKey]>>),
    /// A caller reads and removes the result.
    TakeResult,
    /// A dependency of the job can no longer succeed.
    Broken,
    /// The deadline of a job that has not started is over at this time of the store.
    Expired(Time),
    /// The wait for the event of a waiting job is over at this time of the store.
    EventTimedOut(Time),
}

/// The report that ends a delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The outcome.
    pub outcome: Outcome,
    /// Jobs to push if the job becomes done.
    pub on_done: Vec<NewJob>,
    /// Jobs to push if the job becomes dead.
    pub on_dead: Vec<NewJob>,
    /// Optional details from the worker.
    pub details: ReportDetails,
    /// The real cost of the run, by limit. A limit that the job does not count against is ignored.
    pub costs: BTreeMap<Name, u32>,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        let (on_done, on_dead, details) = (Vec::new(), Vec::new(), ReportDetails::default());
        Self { outcome, on_done, on_dead, details, costs: BTreeMap::new() }
    }
}

/// The outcome of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Success.
    Done {
        /// The result.
        result: Option<Payload>,
    },
    /// Failure.
    Failed {
        /// Error message.
        error: Arc<str>,
        /// Machine-readable detail; stored like a result if the job becomes dead.
        detail: Option<Payload>,
        /// Whether and when to retry.
        again: RetryDirective,
    },
    /// Run again after this long, without using an attempt.
    Snooze(Span),
    /// The worker cancelled the job, or stopped it on request.
    Cancel,
    /// The worker returned the job unfinished, without using an attempt.
    Interrupted,
    /// The job's key under a limit is exhausted: it is paused, and the job goes back to its place without using an
    /// attempt. The costs that it was charged are given back, unless the report says what it cost. A job that does not
    /// count against the limit is due again at the end of the pause.
    Exhausted {
        /// The limit.
        limit: Name,
        /// When the pause ends.
        until: PauseEnd,
    },
}

/// Retry instruction of a failure report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDirective {
    /// By the job's retry policy.
    ByPolicy,
    /// After this long, if the policy allows another attempt.
    After(Span),
    /// No retry.
    Never,
}

/// A change of where or when a job runs. `None` leaves a value unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobEdit {
    /// The new spec, with another queue, priority or limit keys.
    pub spec: Option<Arc<Spec>>,
    /// The new due time.
    pub due: Option<DueTime>,
}

/// Why an event changes nothing. An expected result, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The report belongs to a delivery that no longer holds the lease.
    Stale,
    /// The job has ended.
    Ended,
    /// The job is running.
    Running,
    /// The event does not apply to the job's state.
    NotNow,
    /// There is no result to take, or the job has already been asked to stop.
    Nothing,
}

/// A decision: the new record of a job and the effects on other records, for one atomic write.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The job.
    pub id: JobId,
    /// The version that the decision was based on; the write applies only if it is still current.
    pub seen: Seen,
    /// The new record.
    pub next: NextRecord,
    /// Effects on other records.
    pub effects: Vec<Effect>,
}

/// The new record of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum NextRecord {
    /// Removed.
    Gone,
    /// Updated.
    Live(Box<NextLive>),
}

/// The fields of a record that a change sets. The store fills in the times.
#[derive(Debug, Clone, PartialEq)]
pub struct NextLive {
    /// The state.
    pub state: NextState,
    /// The due time.
    pub due: DueTime,
    /// Attempts so far.
    pub attempt: u32,
    /// Crashes so far.
    pub crashes: u32,
    /// Whether the job has been asked to stop.
    pub stop: bool,
    /// Whether it has been counted as run in its group.
    pub counted: bool,
    /// Whether a dependency can no longer succeed.
    pub broken: bool,
    /// Whether the deadline is removed.
    pub drops_deadline: bool,
    /// Change of the wait for an event.
    pub event: EventWaitChange,
    /// Why it is dead or cancelled.
    pub why: Option<EndReason>,
    /// How the current delivery ends and its error message; `None` if it does not end.
    pub ended: Option<(DeliveryEnd, Option<Arc<str>>)>,
    /// Optional details from the worker, in the report that ends the delivery.
    pub details: ReportDetails,
    /// Change of the stored result.
    pub result: ResultChange,
    /// The new spec, if it changes.
    pub spec: Option<Arc<Spec>>,
    /// The action by hand that causes the change, to be recorded.
    pub action: Option<Box<NewManualAction>>,
}

/// An action by hand; the store adds its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewManualAction {
    /// The action.
    pub action: ManualActionType,
    /// The caller.
    pub by: Arc<str>,
    /// The changed values.
    pub detail: Option<Arc<str>>,
}

impl Change {
    /// The change with a record of the action that causes it. A job that is removed has no record.
    #[must_use]
    pub fn recorded(mut self, action: NewManualAction) -> Self {
        if let NextRecord::Live(next) = &mut self.next {
            next.action = Some(Box::new(action));
        }
        self
    }
}

/// Change of a job's wait for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventWaitChange {
    /// Unchanged.
    Leave,
    /// The time-out of an open wait counts from the time of the write.
    Restart,
    /// An open wait is over without an event.
    TimeOut,
}

/// The state that a change leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextState {
    /// Waiting, scheduled or ready: the store decides by the open dependencies, the event and the due time.
    Pending,
    /// Still running.
    Running,
    /// Done.
    Done,
    /// Dead.
    Dead,
    /// Cancelled.
    Cancelled,
}

/// Change of a job's stored result.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultChange {
    /// Unchanged.
    Leave,
    /// Removed.
    Drop,
    /// Set, with its retention counted from the time of the write.
    Set(Payload, ResultRetention),
}

/// An effect of a change on other records. Each is applied exactly once, in order: a follow-up may join
/// the group whose counters change next.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Returns the permits held by the ended delivery.
    ReturnPermits,
    /// Corrects what a start took from a bucket. The limit's rate counts costs, or else this changes nothing.
    CorrectCost {
        /// The bucket.
        key: LimitKey,
        /// The cost that the start took.
        charged: u32,
        /// The real cost of the run.
        real: u32,
    },
    /// Pauses a key of a limit: no job under it starts before the end of the pause.
    PauseKey {
        /// The bucket.
        key: LimitKey,
        /// The end of the pause.
        until: PauseEnd,
    },
    /// Releases the job's unique key, if the job still holds it.
    ReleaseKey,
    /// Updates the counters of the job's group.
    Tally(GroupTally),
    /// Settles the dependencies of jobs that wait for this one.
    Settle(Settled),
    /// Pushes follow-ups; the n-th stores this job and n as its parent.
    Push(Vec<NewJob>),
}

/// The end of a job, as seen by the jobs that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    /// Succeeded: all dependents are released.
    Succeeded,
    /// Failed, but may be retried: jobs that need its end are released, jobs that need its success keep waiting.
    Failed,
    /// Will never succeed: jobs that need its end are released, jobs that need its success are broken.
    Gone,
}
