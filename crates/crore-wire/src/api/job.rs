//! A job, as it is shown; and lists of them.

use crore_core::job::{self, Keep, Thing};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::payload::Said;
use super::push::Unique;
use super::retry::Retry;
use super::words::{Encoding, HowEnded, Needs, Retain, State, Why};
use super::{DeliveryId, Id, Labels};
use crate::words::{Moment, Period};
use crate::{Format, Raw};

/// A job: what its pusher said, and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id.
    pub id: Id,
    /// Where it waits.
    pub queue: String,
    /// What it is to do.
    pub kind: String,
    /// Where it stands.
    pub state: State,
    /// Smaller first.
    pub priority: i32,
    /// Any value; not in lists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The payload in Base64, if it cannot be said as a value in this encoding.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_base64: Option<String>,
    /// What the payload was pushed as.
    pub encoding: Encoding,
    /// How many deliveries counted so far.
    pub attempt: u32,
    /// How many may; without it, any number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_attempts: Option<u32>,
    /// How many of its workers crashed.
    pub crashes: u32,
    /// The newest delivery.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivery: Option<DeliveryId>,
    /// Who has it, or had it last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<String>,
    /// Whether it was asked to stop.
    pub stop: bool,
    /// When it was pushed.
    pub pushed_at: Moment,
    /// When it may start.
    pub due: Moment,
    /// When its newest delivery was handed over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Moment>,
    /// When its lease ends, if it is running.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lease_until: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Moment>,
    /// Why it is dead or cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<Why>,
    /// When it is tried again.
    pub retry: Retry,
    /// How long its worker may be silent; without it, it is done when it is handed over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lease: Option<Period>,
    /// How long a run may take.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<Period>,
    /// How long its result is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub keep_result: Option<Period>,
    /// What becomes of it when it is done.
    pub retain: Retain,
    /// Whether there is a result to be read.
    pub has_result: bool,
    /// Its unique key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unique: Option<Unique>,
    /// Its caller's own id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_id: Option<String>,
    /// The group that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<Id>,
    /// The job whose end pushed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<Id>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub after: Vec<WaitsFor>,
    /// The limits that a run of it counts against.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub limits: Vec<LimitKey>,
    /// Free marks.
    pub labels: Labels,
    /// Trace context.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<String>,
    /// How earlier deliveries ended, newest first, at most ten.
    pub history: Vec<Attempt>,
}

/// Something that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitsFor {
    /// A job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<Id>,
    /// A group.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<Id>,
    /// What has to become of it.
    pub needs: Needs,
}

impl From<&job::Dependency> for WaitsFor {
    fn from(dependency: &job::Dependency) -> Self {
        let (job, group) = match dependency.on {
            Thing::Job(id) => (Some(id.into()), None),
            Thing::Group(id) => (None, Some(id.into())),
        };
        Self { job, group, needs: dependency.needs.into() }
    }
}

/// A limit, and the value at which a job counts against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitKey {
    /// The limit.
    pub limit: String,
    /// The value of the field that it is kept for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
}

impl From<&crore_core::limit::LimitKey> for LimitKey {
    fn from(key: &crore_core::limit::LimitKey) -> Self {
        let value = key.value.as_ref().map(ToString::to_string);
        Self { limit: key.limit.to_string(), value }
    }
}

/// How one delivery ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number.
    pub delivery: DeliveryId,
    /// When it was handed over.
    pub started_at: Moment,
    /// When it ended.
    pub ended_at: Moment,
    /// Who had it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<String>,
    /// How it ended.
    pub ended: HowEnded,
    /// What it said, if it did not go well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl From<&job::Attempt> for Attempt {
    fn from(attempt: &job::Attempt) -> Self {
        Self {
            delivery: attempt.delivery.into(),
            started_at: Moment(attempt.started_at),
            ended_at: Moment(attempt.ended_at),
            worker: attempt.worker.as_ref().map(ToString::to_string),
            ended: attempt.ended.into(),
            error: attempt.error.as_ref().map(ToString::to_string),
        }
    }
}

/// Whether a job is shown with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// With it.
    Whole,
    /// Without: a list of a thousand would be a gigabyte.
    Brief,
}

impl Job {
    /// A job, as it is shown in a body of this format.
    pub fn of(job: &job::Job, format: Format, show: Show) -> Self {
        let (spec, live) = (&job.spec, &job.live);
        let payload = match show {
            Show::Whole => Said::of(&spec.payload, format),
            Show::Brief => Said::default(),
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
            started_at: was_started.then_some(Moment(live.started_at)),
            lease_until: is_running.then_some(Moment(live.lease_until)),
            ended_at: live.ended_at.map(Moment),
            why: live.why.map(Into::into),
            retry: (&spec.retry).into(),
            lease: spec.lease.map(Period),
            timeout: spec.timeout.map(Period),
            keep_result: match spec.keep {
                Keep::Discard => None,
                Keep::Once(span) | Keep::For(span) => Some(Period(span)),
            },
            retain: spec.retain.into(),
            has_result: live.result.is_some(),
            unique: spec.unique.as_ref().map(Unique::of),
            client_id: spec.client_id.as_ref().map(|client| client.id.to_string()),
            group: spec.group.map(Into::into),
            parent: spec.parent.map(|(id, _)| id.into()),
            after: spec.after.iter().map(Into::into).collect(),
            limits: spec.limits.iter().map(Into::into).collect(),
            labels: Labels(spec.labels.clone()),
            trace: spec.trace.as_ref().map(ToString::to_string),
            history: live.history.iter().map(Into::into).collect(),
        }
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// In this state; state by state, if it is not given.
    pub state: Option<State>,
    /// In this queue.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Of this kind.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
    /// The one with this `client_id`, and nothing else.
    #[param(min_length = 1, max_length = 256)]
    pub client_id: Option<String>,
    /// Where the last page ended: its `next`.
    #[param(min_length = 1, max_length = 255)]
    pub cursor: Option<String>,
    /// At most so many, 1 to 1000; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// A page of jobs, without their payloads. Each state has an order of its own: ready jobs as they will be
/// fetched, scheduled ones by when they are due, ended ones by newest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where to go on; without it, that was all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

/// How long to wait for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Wait {
    /// At most so long, and not longer than a minute.
    pub wait: Option<Period>,
}

/// How a job ended, or that it has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// The job.
    pub id: Id,
    /// Whether it has ended.
    pub ended: bool,
    /// How; without it, it is gone, or has not ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// What it gave, if that is kept and nobody took it before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    /// The same in Base64, if it cannot be said as a value in this encoding.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_base64: Option<String>,
    /// What the result was reported as.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub encoding: Option<Encoding>,
    /// What its last delivery said, if that did not go well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Why a job is not running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The job.
    pub id: Id,
    /// Where it stands.
    pub state: State,
    /// What holds it, the most important first; empty: nothing does, the next fetch gets it.
    pub reasons: Vec<Reason>,
}

/// One thing that holds a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// The word for it: `ended`, `running`, `waits-for`, `due-at`, `paused`, `limited`, `behind` or
    /// `nobody-waits`.
    pub reason: String,
    /// The same in words.
    pub detail: String,
}
