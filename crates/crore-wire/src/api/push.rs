//! Pushing: one job, or a batch of jobs and groups.

use crore_core::job::{ClientId, DueTime, Lapse, ResultRetention, Spec, StartDeadline};
use crore_core::push::{self, NewDependencyTarget};
use crore_core::unique;
use crore_core::version::VersionRequirement;
use crore_core::{AwaitedEvent, Code, Invalid, Name, Payload};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::enums::{Encoding, Hold, Needs, OnTimeout, Retain};
use super::payload::WirePayload;
use super::retry::{Retry, double_option};
use super::{Id, Labels};
use crate::units::{Moment, Period};
use crate::{Format, Raw};

pub use super::pushed::{PushStatus, Pushed, PushedAll};

/// Namespace of the `client_id`s of this API.
pub const CLIENT_ID_DOOR: &str = "native";

/// Maximum value of `max_crashes`.
pub(crate) const MAX_CRASHES: u32 = 1000;

/// A job to push. Only `kind` is required.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// The kind of the job, which selects its handler.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        example = "send-mail"
    )]
    pub kind: String,
    /// The queue. Default: the queue of the handler, or else the queue named after the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub queue: Option<String>,
    /// The payload: any value, at most 1 MiB by default (`caps.payload`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// Payload as Base64-encoded bytes, instead of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// Encoding of the bytes in `payload_base64`. Default: `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Priority; smaller values are delivered first. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Earliest start; an instant in the past means now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Minimum delay before the start, from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
    /// Deadline: a job that has not started by then is cancelled as `expired`. An instant in the past expires it at
    /// once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Moment>,
    /// Deadline, as a span from now; from the tick if a schedule pushes the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_within: Option<Period>,
    /// Job to push if this one misses its deadline. It cannot have an `on_expired` itself.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(no_recursion)]
    pub on_expired: Option<Box<Self>>,
    /// Retry policy. Default: that of the kind's handler, or the default policy.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<Retry>,
    /// Lease duration, 1 s to 24 h. Default: 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Period>,
    /// Timeout of one run. Default: that of the kind's handler, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Number of worker crashes after which the job is dead, at most 1000; `null`: unlimited. Default: 3.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, maximum = 1000)]
    pub max_crashes: Option<Option<u32>>,
    /// Retention of the result. Default: that of the kind's handler, or not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_result: Option<Period>,
    /// Whether the first read deletes the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_once: Option<bool>,
    /// Retention of the job when it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain: Option<Retain>,
    /// Unique key: at most one job at a time holds it.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub unique: Option<Unique>,
    /// The caller's own id, unique among stored jobs: a second push with the same id returns the first job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub client_id: Option<String>,
    /// The group to join.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub group: Option<GroupRef>,
    /// Dependencies.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub after: Vec<After>,
    /// Free-form labels. Names that begin with `crore.` are reserved.
    #[serde(default, skip_serializing_if = "has_no_labels")]
    pub labels: Labels,
    /// Trace context, propagated to the run: `traceparent`, optionally followed by a space and `tracestate`.
    /// Default: from the request headers `traceparent` and `tracestate`, `b3`, or `x-b3-…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub trace: Option<String>,
    /// Versions of the kind that may run the job: comparisons that must all hold, such as `>=2.3 <3`. Only a worker that
    /// names such a version of the kind gets the job. Default: any worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 128, example = ">=2.3")]
    pub worker_version: Option<String>,
    /// Event to wait for: the job starts only after it was sent, and gets its payload.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub wait_for: Option<WaitFor>,
}

/// The event that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitFor {
    /// Name of the event.
    #[schema(min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub event: String,
    /// Maximum time to wait, from now; from the tick if a schedule pushes the job. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Action after the time-out. Default: `cancel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
}

impl WaitFor {
    fn read(self) -> Result<AwaitedEvent, Invalid> {
        let name = Name::new("wait_for.event", &self.event)?;
        if self.timeout.is_none() && self.on_timeout.is_some() {
            let why = "`on_timeout` needs `timeout`";
            return Err(Invalid::new(Code::Malformed, "wait_for.on_timeout", why));
        }
        let timeout = self.timeout.map(|timeout| timeout.0);
        Ok(AwaitedEvent {
            name,
            timeout,
            on_timeout: self.on_timeout.map(Into::into).unwrap_or_default(),
        })
    }

    /// Converts from the core type.
    pub fn of(awaited: &AwaitedEvent) -> Self {
        let on_timeout = awaited.timeout.map(|_| awaited.on_timeout.into());
        let (event, timeout) = (awaited.name.to_string(), awaited.timeout.map(Period));
        Self { event, timeout, on_timeout }
    }
}

fn has_no_labels(labels: &Labels) -> bool {
    labels.0.is_empty()
}

/// Unique key: at most one job at a time holds it; a second push returns the first job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// The key.
    #[schema(min_length = 1, max_length = 256)]
    pub key: String,
    /// When the job releases the key. Default: `until-end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Maximum time for which the job holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Period>,
}

/// Reference to a stored group (`id`), or to a group of the same batch (`new`: index in `groups`, from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRef {
    /// Id of a stored group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Index of a group of the same batch, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<usize>,
}

/// A dependency: exactly one of `job`, `earlier`, `group` and `new_group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// Id of a stored job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Id>,
    /// Index of an earlier job of the same batch, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<usize>,
    /// Id of a stored group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Id>,
    /// Index of a group of the same batch, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_group: Option<usize>,
    /// The condition. Default: `success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
}

/// A group to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// Whether the group stays open for members of later batches, until it is sealed.
    #[serde(default)]
    pub open: bool,
}

/// A batch of jobs and groups. Invalid jobs are reported individually; all others are stored atomically.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJobs {
    /// The jobs, at most 1000.
    #[schema(value_type = Vec<NewJob>)]
    pub jobs: Vec<Raw>,
    /// The groups to create.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub groups: Vec<NewGroup>,
}

/// Body of a push: one job, or a batch.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Push {
    /// One job.
    One(Box<NewJob>),
    /// A batch.
    Many(NewJobs),
}

impl Push {
    /// Parses a body; a body whose first key is `jobs` or `groups` is a batch.
    pub fn decode(format: Format, bytes: &[u8]) -> Result<Self, Invalid> {
        match format.first_key(bytes) {
            Some(b"jobs" | b"groups") => format.decode(bytes).map(Self::Many),
            _ => format.decode(bytes).map(|job| Self::One(Box::new(job))),
        }
    }
}

impl NewJob {
    /// Converts to the core type.
    pub fn read(self, format: Format) -> Result<push::NewJob, Invalid> {
        let kind = Name::new("kind", &self.kind)?;
        let unset_fields = push::UnsetFields {
            queue: self.queue.is_none(),
            retry: self.retry.is_none(),
            timeout: self.timeout.is_none(),
            keep: self.keep_result.is_none(),
        };
        let queue = match &self.queue {
            Some(queue) => Name::new("queue", queue)?,
            None => kind.clone(),
        };
        let payload = WirePayload {
            value: self.payload,
            base64: self.payload_base64,
            encoding: self.encoding,
        };
        let payload = match payload.read("payload", format)? {
            Some(payload) => payload,
            None => Payload::new(format.encoding(), Raw::null(format).bytes()),
        };
        let mut spec = Spec::new(queue, kind, payload);
        spec.priority = self.priority.unwrap_or_default();
        if let Some(retry) = self.retry {
            spec.retry = retry.read()?;
        }
        if let Some(lease) = self.lease {
            spec.lease = Some(lease.0);
        }
        spec.timeout = self.timeout.map(|timeout| timeout.0);
        if let Some(quarantine) = self.max_crashes {
            if quarantine.is_some_and(|n| n > MAX_CRASHES) {
                let why = format!("at most {MAX_CRASHES} are allowed, or `null` for unlimited");
                return Err(Invalid::new(Code::RetryRange, "max_crashes", why));
            }
            spec.lapse = Lapse::Crash { quarantine };
        }
        spec.keep = result_retention(self.keep_result, self.read_once)?;
        spec.retain = self.retain.map_or(spec.retain, Into::into);
        spec.unique = self.unique.map(Unique::read).map(Box::new);
        if let Some(id) = self.client_id {
            let door = Name::new("door", CLIENT_ID_DOOR)?;
            spec.client_id = Some(Box::new(ClientId { door, id: id.into() }));
        }
        spec.labels = self.labels.0;
        spec.trace = self.trace.map(Into::into);
        if let Some(text) = &self.worker_version {
            let required = VersionRequirement::parse("worker_version", text)?;
            spec.worker_version = Some(Box::new(required));
        }
        spec.wait_for = self.wait_for.map(WaitFor::read).transpose()?.map(Box::new);
        let due = due_time(self.due, self.delay)?.unwrap_or_default();
        let deadline = start_deadline(self.deadline, self.start_within)?;
        if let Some(next) = self.on_expired {
            let next = next.read(format).map_err(|invalid| invalid.inside("on_expired"))?;
            spec.on_expired = Some(Box::new(next));
        }
        let group = self.group.map(GroupRef::read).transpose()?;
        let after = self.after.into_iter().enumerate().map(|(n, after)| after.read(n));
        Ok(push::NewJob {
            spec,
            due,
            deadline,
            group,
            after: after.collect::<Result<_, _>>()?,
            unset: unset_fields,
        })
    }

    /// Converts from the core type, for a body of this format.
    pub fn of(job: &push::NewJob, format: Format) -> Self {
        let spec = &job.spec;
        let payload = WirePayload::of(&spec.payload, format);
        let (keep_result, read_once) = match spec.keep {
            ResultRetention::Discard => (None, None),
            ResultRetention::Once(span) => (Some(Period(span)), Some(true)),
            ResultRetention::For(span) => (Some(Period(span)), None),
        };
        let encoding = payload.encoding.filter(|_| payload.base64.is_some());
        Self {
            kind: spec.kind.to_string(),
            queue: Some(spec.queue.to_string()),
            payload: payload.value,
            payload_base64: payload.base64,
            encoding,
            priority: Some(spec.priority),
            due: match job.due {
                DueTime::At(time) => Some(Moment(time)),
                _ => None,
            },
            delay: match job.due {
                DueTime::After(span) => Some(Period(span)),
                _ => None,
            },
            deadline: match job.deadline {
                Some(StartDeadline::At(time)) => Some(Moment(time)),
                _ => None,
            },
            start_within: match job.deadline {
                Some(StartDeadline::Within(span)) => Some(Period(span)),
                _ => None,
            },
            on_expired: spec.on_expired.as_ref().map(|next| Box::new(Self::of(next, format))),
            retry: Some((&spec.retry).into()),
            lease: spec.lease.map(Period),
            timeout: spec.timeout.map(Period),
            max_crashes: match spec.lapse {
                Lapse::Crash { quarantine } => Some(quarantine),
                _ => None,
            },
            keep_result,
            read_once,
            retain: Some(spec.retain.into()),
            unique: spec.unique.as_deref().map(Unique::of),
            client_id: spec.client_id.as_ref().map(|client| client.id.to_string()),
            group: job.group.map(GroupRef::of),
            after: job.after.iter().map(After::of).collect(),
            labels: Labels(spec.labels.clone()),
            trace: spec.trace.as_ref().map(ToString::to_string),
            worker_version: spec.worker_version.as_ref().map(ToString::to_string),
            wait_for: spec.wait_for.as_deref().map(WaitFor::of),
        }
    }
}

/// The due time, if set.
pub(super) fn due_time(
    due: Option<Moment>,
    delay: Option<Period>,
) -> Result<Option<DueTime>, Invalid> {
    match (due, delay) {
        (Some(_), Some(_)) => {
            Err(Invalid::new(Code::Malformed, "delay", "either `due` or `delay`, not both"))
        }
        (Some(due), None) => Ok(Some(DueTime::At(due.0))),
        (None, Some(delay)) => Ok(Some(DueTime::After(delay.0))),
        (None, None) => Ok(None),
    }
}

fn start_deadline(
    deadline: Option<Moment>,
    within: Option<Period>,
) -> Result<Option<StartDeadline>, Invalid> {
    match (deadline, within) {
        (Some(_), Some(_)) => {
            let why = "either `deadline` or `start_within`, not both";
            Err(Invalid::new(Code::Malformed, "start_within", why))
        }
        (Some(deadline), None) => Ok(Some(StartDeadline::At(deadline.0))),
        (None, within) => Ok(within.map(|within| StartDeadline::Within(within.0))),
    }
}

fn result_retention(keep: Option<Period>, once: Option<bool>) -> Result<ResultRetention, Invalid> {
    match (keep, once) {
        (Some(Period(span)), Some(true)) => Ok(ResultRetention::Once(span)),
        (Some(Period(span)), _) => Ok(ResultRetention::For(span)),
        (None, Some(true)) => {
            let why = "`read_once` needs `keep_result`";
            Err(Invalid::new(Code::Malformed, "read_once", why))
        }
        (None, _) => Ok(ResultRetention::Discard),
    }
}

impl Unique {
    fn read(self) -> unique::Unique {
        let hold = self.hold.map_or(unique::UniqueHold::UntilEnd, Into::into);
        unique::Unique { key: self.key.into(), hold, window: self.window.map(|window| window.0) }
    }

    /// Converts from the core type.
    pub fn of(unique: &unique::Unique) -> Self {
        let (key, hold) = (unique.key.to_string(), Some(unique.hold.into()));
        Self { key, hold, window: unique.window.map(Period) }
    }
}

impl GroupRef {
    fn read(self) -> Result<push::GroupRef, Invalid> {
        match (self.id, self.new) {
            (Some(id), None) => Ok(push::GroupRef::Id(id.into())),
            (None, Some(n)) => Ok(push::GroupRef::New(n)),
            _ => Err(Invalid::new(Code::Malformed, "group", "needs either `id` or `new`")),
        }
    }

    fn of(group: push::GroupRef) -> Self {
        match group {
            push::GroupRef::Id(id) => Self { id: Some(id.into()), new: None },
            push::GroupRef::New(n) => Self { id: None, new: Some(n) },
        }
    }
}

impl After {
    fn read(self, index: usize) -> Result<push::NewDependency, Invalid> {
        let on = match (self.job, self.earlier, self.group, self.new_group) {
            (Some(id), None, None, None) => NewDependencyTarget::Job(id.into()),
            (None, Some(n), None, None) => NewDependencyTarget::Earlier(n),
            (None, None, Some(id), None) => {
                NewDependencyTarget::Group(push::GroupRef::Id(id.into()))
            }
            (None, None, None, Some(n)) => NewDependencyTarget::Group(push::GroupRef::New(n)),
            _ => {
                let why = "needs exactly one of `job`, `earlier`, `group` and `new_group`";
                return Err(Invalid::new(Code::Malformed, format!("after[{index}]"), why));
            }
        };
        let needs = self.needs.unwrap_or(Needs::Success).into();
        Ok(push::NewDependency { on, needs })
    }

    fn of(after: &push::NewDependency) -> Self {
        let blank = Self { needs: Some(after.needs.into()), ..Self::default() };
        match after.on {
            NewDependencyTarget::Job(id) => Self { job: Some(id.into()), ..blank },
            NewDependencyTarget::Earlier(n) => Self { earlier: Some(n), ..blank },
            NewDependencyTarget::Group(push::GroupRef::Id(id)) => {
                Self { group: Some(id.into()), ..blank }
            }
            NewDependencyTarget::Group(push::GroupRef::New(n)) => {
                Self { new_group: Some(n), ..blank }
            }
        }
    }
}
