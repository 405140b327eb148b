//! Jobs and lists of jobs, as returned by the API.

use crore_core::job::{self, DependencyTarget, ResultRetention};
use crore_core::{EventWait, Fingerprint};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::enums::{ActionName, Encoding, HowEnded, Needs, Retain, State, Why};
use super::events::ReceivedEvent;
use super::payload::WirePayload;
use super::push::{NewJob, Unique, WaitFor};
use super::retry::Retry;
use super::{DeliveryId, Id, Labels};
use crate::units::{Moment, Period};
use crate::{Format, Raw};

/// A job: its definition and its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// The id.
    pub id: Id,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The state.
    pub state: State,
    /// Priority; smaller values are delivered first.
    pub priority: i32,
    /// The payload, any value, with `***` in place of masked fields; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The payload in Base64, if it cannot be represented as a value in this format.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_base64: Option<String>,
    /// Encoding in which the payload was pushed.
    pub encoding: Encoding,
    /// Number of attempts so far.
    pub attempt: u32,
    /// Maximum number of attempts; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_attempts: Option<u32>,
    /// Number of crashes of its workers.
    pub crashes: u32,
    /// The latest delivery.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivery: Option<DeliveryId>,
    /// The current or last worker.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<String>,
    /// Whether the job was asked to stop.
    pub stop: bool,
    /// When it was pushed.
    pub pushed_at: Moment,
    /// Earliest start.
    pub due: Moment,
    /// Deadline for the first start. Absent once the job has started or was retried by hand; an expired job has the one
    /// that it missed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline: Option<Moment>,
    /// Job to push if this one misses its deadline; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_expired: Option<Box<NewJob>>,
    /// When the latest delivery started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Moment>,
    /// When the lease expires, for a running job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lease_until: Option<Moment>,
    /// When the job ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Moment>,
    /// Why it is dead or cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<Why>,
    /// Retry policy.
    pub retry: Retry,
    /// Lease duration; absent: the job is done as soon as it is delivered (fire and forget).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lease: Option<Period>,
    /// Timeout of one run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<Period>,
    /// Retention of the result.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub keep_result: Option<Period>,
    /// Retention of the job when it is done.
    pub retain: Retain,
    /// Whether a result is stored.
    pub has_result: bool,
    /// The unique key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unique: Option<Unique>,
    /// The caller's own id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_id: Option<String>,
    /// The group of the job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<Id>,
    /// The job whose end pushed this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<Id>,
    /// The job that this one is a replay of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay_of: Option<Id>,
    /// Dependencies.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub after: Vec<JobDependency>,
    /// The limits that apply to the job.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub limits: Vec<LimitKey>,
    /// Labels.
    pub labels: Labels,
    /// Trace context.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<String>,
    /// Versions of the kind that may run the job; absent: any worker.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker_version: Option<String>,
    /// The event that the job waits for, or waited for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_for: Option<WaitFor>,
    /// When the wait for the event times out, of a job that still waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_until: Option<Moment>,
    /// The event that the job has received; without its payload in lists, and of a job that is done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event: Option<ReceivedEvent>,
    /// Ended deliveries, newest first, at most ten.
    pub history: Vec<Attempt>,
    /// Actions by hand, newest first, at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub actions: Vec<JobActionRecord>,
}

/// Something that a caller did to a job by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobActionRecord {
    /// When it was done.
    pub at: Moment,
    /// The action: `cancel`, `retry` or `edit`.
    pub action: ActionName,
    /// The caller: a token, a certificate, `loopback`, `anybody`, `local` (the program that contains the engine), or an
    /// operation and its caller.
    pub by: String,
    /// The changed values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}

impl From<&job::ManualAction> for JobActionRecord {
    fn from(action: &job::ManualAction) -> Self {
        Self {
            at: Moment(action.at),
            action: action.action.into(),
            by: action.by.to_string(),
            detail: action.detail.as_ref().map(ToString::to_string),
        }
    }
}

/// A dependency of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobDependency {
    /// The job to wait for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<Id>,
    /// The group to wait for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<Id>,
    /// The condition.
    pub needs: Needs,
}

impl From<&job::Dependency> for JobDependency {
    fn from(dependency: &job::Dependency) -> Self {
        let (job, group) = match dependency.on {
            DependencyTarget::Job(id) => (Some(id.into()), None),
            DependencyTarget::Group(id) => (None, Some(id.into())),
        };
        Self { job, group, needs: dependency.needs.into() }
    }
}

/// A limit that applies to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitKey {
    /// Name of the limit.
    pub limit: String,
    /// Value of the limit's `per` field in this job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
}

impl From<&crore_core::limit::LimitKey> for LimitKey {
    fn from(key: &crore_core::limit::LimitKey) -> Self {
        let value = key.value.as_ref().map(ToString::to_string);
        Self { limit: key.limit.to_string(), value }
    }
}

/// An ended delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Number of the delivery.
    pub delivery: DeliveryId,
    /// When it started.
    pub started_at: Moment,
    /// When it ended.
    pub ended_at: Moment,
    /// Time from its start to its end.
    pub duration: Period,
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<String>,
    /// How it ended.
    pub ended: HowEnded,
    /// Error message, if it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Fingerprint of the error: equal for messages that differ only in numbers, ids and quoted parts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fingerprint: Option<String>,
}

impl From<&job::Attempt> for Attempt {
    fn from(attempt: &job::Attempt) -> Self {
        Self {
            delivery: attempt.delivery.into(),
            started_at: Moment(attempt.started_at),
            ended_at: Moment(attempt.ended_at),
            duration: Period(attempt.ended_at.since(attempt.started_at)),
            worker: attempt.worker.as_ref().map(ToString::to_string),
            ended: attempt.ended.into(),
            error: attempt.error.as_ref().map(ToString::to_string),
            fingerprint: attempt.error.as_ref().map(|error| Fingerprint::of(error).to_string()),
        }
    }
}

/// Whether a job is returned with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobView {
    /// With the payload.
    Full,
    /// Without the payload, for lists: a thousand payloads can be a gigabyte.
    Summary,
}

impl Job {
    /// Converts a job for a body of this format.
    pub fn of(job: &job::Job, format: Format, show: JobView) -> Self {
        let (spec, live) = (&job.spec, &job.live);
        let payload = match show {
            JobView::Full => WirePayload::of(&spec.payload, format),
            JobView::Summary => WirePayload::default(),
        };
        let is_running = live.state == job::State::Running;
        let was_started = live.delivery != crore_core::Delivery::NONE;
        Self {
            id: job.id.into(),
            queue: spec.queue.to_string(),
            kind: spec.kind.to_string(),
            state: live.state.into(),
            priority: spec.priority,
            payload: payload.value,
            payload_base64: payload.base64,
            encoding: spec.payload.encoding.into(),
            attempt: live.attempt,
            max_attempts: spec.retry.max_attempts,
            crashes: live.crashes,
            delivery: was_started.then(|| live.delivery.into()),
            worker: live.worker.as_ref().map(ToString::to_string),
            stop: live.stop,
            pushed_at: Moment(live.pushed_at),
            due: Moment(live.due),
            deadline: live.deadline.map(Moment),
            on_expired: spec
                .on_expired
                .as_ref()
                .filter(|_| show == JobView::Full)
                .map(|next| Box::new(NewJob::of(next, format))),
            started_at: was_started.then_some(Moment(live.started_at)),
            lease_until: is_running.then_some(Moment(live.lease_until)),
            ended_at: live.ended_at.map(Moment),
            why: live.why.map(Into::into),
            retry: (&spec.retry).into(),
            lease: spec.lease.map(Period),
            timeout: spec.timeout.map(Period),
            keep_result: match spec.keep {
                ResultRetention::Discard => None,
                ResultRetention::Once(span) | ResultRetention::For(span) => Some(Period(span)),
            },
            retain: spec.retain.into(),
            has_result: live.result.is_some(),
            unique: spec.unique.as_deref().map(Unique::of),
            client_id: spec.client_id.as_ref().map(|client| client.id.to_string()),
            group: spec.group.map(Into::into),
            parent: spec.parent.map(|(id, _)| id.into()),
            replay_of: spec.replay_of.map(Into::into),
            after: spec.after.iter().map(Into::into).collect(),
            limits: spec.limits.iter().map(Into::into).collect(),
            labels: Labels(spec.labels.clone()),
            trace: spec.trace.as_ref().map(ToString::to_string),
            worker_version: spec.worker_version.as_ref().map(ToString::to_string),
            wait_for: spec.wait_for.as_deref().map(WaitFor::of),
            wait_until: match live.event.as_deref() {
                Some(EventWait::Open { until }) => until.map(Moment),
                _ => None,
            },
            event: ReceivedEvent::of(job, format, show),
            history: live.history.iter().map(Into::into).collect(),
            actions: live.actions.iter().map(Into::into).collect(),
        }
    }
}

/// Selects the jobs to list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// Only jobs in this state. Default: all states, one after the other.
    pub state: Option<State>,
    /// Only jobs in this queue.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Only jobs of this kind.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
    /// Filter: `state:dead kind:mail* payload.to=ada error~timeout age>1h`; combined with the other parameters.
    #[param(max_length = 4096)]
    pub q: Option<String>,
    /// Only the job with this `client_id`.
    #[param(min_length = 1, max_length = 256)]
    pub client_id: Option<String>,
    /// Cursor: `next` of the previous page.
    #[param(min_length = 1, max_length = 255)]
    pub cursor: Option<String>,
    /// Page size, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// A page of jobs, without their payloads. The order depends on the state: ready jobs in fetch order, scheduled
/// jobs by due time, ended jobs newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
    /// Number of jobs read for this page. A page ends early, with a cursor, after 10,000 jobs or one second.
    #[serde(default)]
    pub scanned: u64,
    /// Whether the list ends with this page.
    #[serde(default)]
    pub complete: bool,
}

/// Wait time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Maximum time to wait for the end of the job, up to one minute.
    pub wait: Option<Period>,
}

/// Result of a wait: how the job ended, or that it has not ended yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// The job.
    pub id: Id,
    /// Whether the job has ended.
    pub ended: bool,
    /// The final state; absent if the job has not ended or was removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// The result of a done job, or the error detail of a dead one, if it is stored and was not deleted by an earlier
    /// read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    /// The result in Base64, if it cannot be represented as a value in this format.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_base64: Option<String>,
    /// Encoding in which the result was reported.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub encoding: Option<Encoding>,
    /// Error message of the last delivery, if it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Why a job is not running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The job.
    pub id: Id,
    /// The state.
    pub state: State,
    /// Deadline for the first start, while it is in force; of an expired job, the one that it missed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline: Option<Moment>,
    /// Reasons why the job is not running, the most important one first; empty: the next fetch delivers it.
    pub reasons: Vec<Reason>,
}

/// A reason why a job is not running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// The reason: `ended`, `running`, `waits-for`, `waits-for-event`, `due-at`, `paused`, `limited`, `behind`, `shared`, `no-worker-version` or
    /// `nobody-waits`.
    pub reason: String,
    /// Description for operators.
    pub detail: String,
    /// For `waits-for`: the jobs and groups that have not ended as required.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub on: Vec<Awaited>,
}

/// A job or group that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Awaited {
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<Id>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<Id>,
    /// Condition.
    pub needs: Needs,
    /// State of the job; `open` or `sealed` for a group; `removed`; absent if the token may not see it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
    /// Its state, and what would end the wait.
    pub detail: String,
}
