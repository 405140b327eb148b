//! Pushing: one job, or a batch of jobs and groups.

use crore_core::job::{ClientId, Keep, Lapse, Spec, When};
use crore_core::push::{self, AfterRef};
use crore_core::unique;
use crore_core::{Code, Invalid, Name, Payload};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::payload::Said;
use super::retry::{Retry, said};
use super::words::{Encoding, Hold, Needs, Retain};
use super::{Id, Labels};
use crate::words::{Moment, Period};
use crate::{Format, Raw};

pub use super::pushed::{Pushed, PushedAll, Took};

/// The door within which a `client_id` of this API is unique.
pub const DOOR: &str = "native";

/// The most crashes that may be put up with, unless any number is.
pub(crate) const MOST_CRASHES: u32 = 1000;

/// A job to push. Only `kind` is needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What it is to do; the name of its handler.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        example = "send-mail"
    )]
    pub kind: String,
    /// Where it waits; the queue named after its kind, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub queue: Option<String>,
    /// What it is to do it with: any value, at most 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The same as bytes, in Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// What the bytes of `payload_base64` are; `bytes`, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Smaller first; 0 unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Not before this instant; one in the past means now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Not before this long from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
    /// When it is tried again.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<Retry>,
    /// How long its worker may be silent, 1 s to 24 h; 30 s unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Period>,
    /// How long a run may take; as long as it likes, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// After how many crashes of its workers it is dead, at most 1000; 3 unless told otherwise, `null`: never.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, maximum = 1000)]
    pub max_crashes: Option<Option<u32>>,
    /// How long its result is kept; not at all, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_result: Option<Period>,
    /// Whether the first reader of its result takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_once: Option<bool>,
    /// What becomes of it when it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain: Option<Retain>,
    /// At most one such job at a time.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub unique: Option<Unique>,
    /// Your own id for it; no two jobs that are there have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub client_id: Option<String>,
    /// The group that it joins.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub group: Option<GroupRef>,
    /// What it waits for.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub after: Vec<After>,
    /// Free marks. Names that begin with `crore.` are the server's own, and are refused.
    #[serde(default, skip_serializing_if = "is_none")]
    pub labels: Labels,
    /// Trace context, carried to its run: a `traceparent`, and after a space the `tracestate`, if there is one.
    /// Unless told otherwise, that of the request: the headers `traceparent` and `tracestate`, or `b3`, or `x-b3-…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub trace: Option<String>,
}

fn is_none(labels: &Labels) -> bool {
    labels.0.is_empty()
}

/// At most one job with this key at a time; a second one is answered with the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// The key.
    #[schema(min_length = 1, max_length = 256)]
    pub key: String,
    /// What ends the lock; `until-end` unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The longest time for which it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Period>,
}

/// A group that is there (`id`), or one that the same batch makes (`new`: its place in `groups`, from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRef {
    /// A group that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// A group that the same batch makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<usize>,
}

/// Something that a job waits for: exactly one of `job`, `earlier`, `group` and `new_group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// A job that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Id>,
    /// An earlier job of the same batch, by its place from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<usize>,
    /// A group that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Id>,
    /// A group that the same batch makes, by its place from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_group: Option<usize>,
    /// What has to become of it; `success` unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
}

/// A group to make. A job that waits for it is its follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// Whether later batches may add members, until it is sealed.
    #[serde(default)]
    pub open: bool,
}

/// Many jobs and groups at once. Each job that breaks a rule is answered singly; all the others are
/// stored together, or none of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJobs {
    /// The jobs, at most 1000.
    #[schema(value_type = Vec<NewJob>)]
    pub jobs: Vec<Raw>,
    /// The groups.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub groups: Vec<NewGroup>,
}

/// What a push brings: one job, or a batch.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Push {
    /// One job.
    One(Box<NewJob>),
    /// A batch.
    Many(NewJobs),
}

impl Push {
    /// Reads a body: a batch is told by its first key.
    pub fn decode(format: Format, bytes: &[u8]) -> Result<Self, Invalid> {
        match format.first_key(bytes) {
            Some(b"jobs" | b"groups") => format.decode(bytes).map(Self::Many),
            _ => format.decode(bytes).map(|job| Self::One(Box::new(job))),
        }
    }
}

impl NewJob {
    /// The job that is meant, in the words of the rules.
    pub fn read(self, format: Format) -> Result<push::NewJob, Invalid> {
        let kind = Name::new("kind", &self.kind)?;
        let unsaid = push::Unsaid {
            queue: self.queue.is_none(),
            retry: self.retry.is_none(),
            timeout: self.timeout.is_none(),
            keep: self.keep_result.is_none(),
        };
        let queue = match &self.queue {
            Some(queue) => Name::new("queue", queue)?,
            None => kind.clone(),
        };
        let payload =
            Said { value: self.payload, base64: self.payload_base64, encoding: self.encoding };
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
            if quarantine.is_some_and(|n| n > MOST_CRASHES) {
                let why = format!("at most {MOST_CRASHES} are allowed, or `null` for any number");
                return Err(Invalid::new(Code::RetryRange, "max_crashes", why));
            }
            spec.lapse = Lapse::Crash { quarantine };
        }
        spec.keep = keep(self.keep_result, self.read_once)?;
        spec.retain = self.retain.map_or(spec.retain, Into::into);
        spec.unique = self.unique.map(Unique::read);
        if let Some(id) = self.client_id {
            spec.client_id = Some(ClientId { door: Name::new("door", DOOR)?, id: id.into() });
        }
        spec.labels = self.labels.0;
        spec.trace = self.trace.map(Into::into);
        let due = when(self.due, self.delay)?.unwrap_or_default();
        let group = self.group.map(GroupRef::read).transpose()?;
        let after = self.after.into_iter().enumerate().map(|(n, after)| after.read(n));
        Ok(push::NewJob { spec, due, group, after: after.collect::<Result<_, _>>()?, unsaid })
    }

    /// A job as it would be pushed, in a body of this format.
    pub fn of(job: &push::NewJob, format: Format) -> Self {
        let spec = &job.spec;
        let payload = Said::of(&spec.payload, format);
        let (keep_result, read_once) = match spec.keep {
            Keep::Discard => (None, None),
            Keep::Once(span) => (Some(Period(span)), Some(true)),
            Keep::For(span) => (Some(Period(span)), None),
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
                When::At(time) => Some(Moment(time)),
                _ => None,
            },
            delay: match job.due {
                When::After(span) => Some(Period(span)),
                _ => None,
            },
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
            unique: spec.unique.as_ref().map(Unique::of),
            client_id: spec.client_id.as_ref().map(|client| client.id.to_string()),
            group: job.group.map(GroupRef::of),
            after: job.after.iter().map(After::of).collect(),
            labels: Labels(spec.labels.clone()),
            trace: spec.trace.as_ref().map(ToString::to_string),
        }
    }
}

/// When a job is due, if that is said.
pub(super) fn when(due: Option<Moment>, delay: Option<Period>) -> Result<Option<When>, Invalid> {
    match (due, delay) {
        (Some(_), Some(_)) => {
            Err(Invalid::new(Code::Malformed, "delay", "either `due` or `delay`, not both"))
        }
        (Some(due), None) => Ok(Some(When::At(due.0))),
        (None, Some(delay)) => Ok(Some(When::After(delay.0))),
        (None, None) => Ok(None),
    }
}

fn keep(keep: Option<Period>, once: Option<bool>) -> Result<Keep, Invalid> {
    match (keep, once) {
        (Some(Period(span)), Some(true)) => Ok(Keep::Once(span)),
        (Some(Period(span)), _) => Ok(Keep::For(span)),
        (None, Some(true)) => {
            let why = "a result that is read once needs a `keep_result` too";
            Err(Invalid::new(Code::Malformed, "read_once", why))
        }
        (None, _) => Ok(Keep::Discard),
    }
}

impl Unique {
    fn read(self) -> unique::Unique {
        let hold = self.hold.map_or(unique::Hold::UntilEnd, Into::into);
        unique::Unique { key: self.key.into(), hold, window: self.window.map(|window| window.0) }
    }

    /// A key, as it is said here.
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
    fn read(self, place: usize) -> Result<push::After, Invalid> {
        let on = match (self.job, self.earlier, self.group, self.new_group) {
            (Some(id), None, None, None) => AfterRef::Job(id.into()),
            (None, Some(n), None, None) => AfterRef::Earlier(n),
            (None, None, Some(id), None) => AfterRef::Group(push::GroupRef::Id(id.into())),
            (None, None, None, Some(n)) => AfterRef::Group(push::GroupRef::New(n)),
            _ => {
                let why = "needs exactly one of `job`, `earlier`, `group` and `new_group`";
                return Err(Invalid::new(Code::Malformed, format!("after[{place}]"), why));
            }
        };
        let needs = self.needs.unwrap_or(Needs::Success).into();
        Ok(push::After { on, needs })
    }

    fn of(after: &push::After) -> Self {
        let blank = Self { needs: Some(after.needs.into()), ..Self::default() };
        match after.on {
            AfterRef::Job(id) => Self { job: Some(id.into()), ..blank },
            AfterRef::Earlier(n) => Self { earlier: Some(n), ..blank },
            AfterRef::Group(push::GroupRef::Id(id)) => Self { group: Some(id.into()), ..blank },
            AfterRef::Group(push::GroupRef::New(n)) => Self { new_group: Some(n), ..blank },
        }
    }
}
