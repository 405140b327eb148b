//! Handlers: definitions of how jobs of a kind are run.

use crore_core::{Code, Invalid, Name, handler};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::enums::{AnswerTo, Gives, Missed};
use super::retry::Retry;
use crate::units::{Moment, Period};
use crate::{Format, Raw};

/// Definition of a handler. Only `runner` is required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetHandler {
    /// The runner: `command`, `http`, `grpc`, `docker`, `plugin`, `slack`, or a custom one.
    #[schema(min_length = 1, max_length = 255, example = "command")]
    pub runner: String,
    /// Settings of the runner: an object whose fields depend on the runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"program": "ls"}))]
    pub settings: Option<Raw>,
    /// Queue of jobs that are pushed without one; a channel must serve it. Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub queue: Option<String>,
    /// Retry policy of jobs that are pushed without one.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<Retry>,
    /// Timeout of one run, for jobs that are pushed without one. Default: no timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Storage of results. Default: not stored.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub results: Option<Results>,
    /// Whether runner instances are pooled and reused.
    #[serde(default)]
    pub pooled: bool,
    /// Follow-ups of a job that is done; by default one job per item of the result.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(max_items = 100)]
    pub next: Vec<FollowUp>,
    /// Follow-ups of a job that is dead.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(max_items = 100)]
    pub on_failure: Vec<FollowUp>,
    /// Repeat interval, at least 1 s: an ended job is pushed again, due a whole number of intervals after its first
    /// due time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Period>,
    /// Schedule that pushes jobs of this handler.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub schedule: Option<HandlerScheduleSpec>,
}

/// Storage of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Which callers of the jobworkerp protocol can wait for results; such results are stored. Default: `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerTo>,
    /// Whether results of done jobs are stored.
    #[serde(default)]
    pub success: bool,
    /// Whether results of dead jobs are stored.
    #[serde(default)]
    pub failure: bool,
    /// Retention of stored results. Default: 24 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,
}

/// A follow-up: a job that is pushed when another job ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowUp {
    /// The kind of the follow-up, which must have a handler.
    #[schema(min_length = 1, max_length = 255)]
    pub kind: String,
    /// Payload of the follow-up. Default: `items`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gives: Option<Gives>,
}

/// Schedule of a handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerScheduleSpec {
    /// When it fires: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`.
    #[schema(example = "cron 0 3 * * *", max_length = 128)]
    pub timing: String,
    /// Policy for missed ticks. Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Payload of the pushed jobs. Default: `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
}

/// A handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Handler {
    /// The kind.
    pub kind: String,
    /// Id of the handler, never reused. Absent for built-in handlers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// When its schedule fires next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_at: Option<Moment>,
    /// The definition.
    #[serde(flatten)]
    pub definition: SetHandler,
}

/// All handlers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Handlers {
    /// The handlers, by kind.
    pub handlers: Vec<Handler>,
    /// Kinds whose stored handler cannot be read; their jobs do not run until the handler is set again or deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unreadable: Vec<String>,
}

/// Converts a value to JSON.
fn value(field: &str, raw: &Raw) -> Result<Value, Invalid> {
    let wrong = || Invalid::new(Code::Malformed, field, "cannot be represented in JSON");
    let json = raw.convert(Format::Json).ok_or_else(wrong)?;
    serde_json::from_slice(json.bytes()).map_err(|_| wrong())
}

fn raw(value: &Value, format: Format) -> Option<Raw> {
    Raw::new(Format::Json, value.to_string().into_bytes()).convert(format)
}

impl SetHandler {
    /// Converts to the core type.
    pub fn read(self) -> Result<handler::Handler, Invalid> {
        let settings = match &self.settings {
            None => serde_json::Map::new(),
            Some(raw) => match value("settings", raw)? {
                Value::Object(settings) => settings,
                _ => {
                    return Err(Invalid::new(Code::Malformed, "settings", "must be an object"));
                }
            },
        };
        let mut handler = handler::Handler::new(Name::new("runner", &self.runner)?, settings);
        if let Some(queue) = &self.queue {
            handler.queue = Name::new("queue", queue)?;
        }
        if let Some(retry) = self.retry {
            handler.retry = retry.read()?;
        }
        handler.timeout = self.timeout.map(|timeout| timeout.0);
        handler.results = self.results.unwrap_or_default().read();
        handler.pooled = self.pooled;
        handler.next = follow_up_handlers("next", &self.next)?;
        handler.on_failure = follow_up_handlers("on_failure", &self.on_failure)?;
        handler.every = self.every.map(|every| every.0);
        handler.schedule = self.schedule.map(HandlerScheduleSpec::read).transpose()?;
        Ok(handler)
    }

    /// Converts from the core type, for a body of this format.
    pub fn of(handler: &handler::Handler, format: Format) -> Self {
        let settings = Value::Object(handler.settings.clone());
        let follow = |follow: &handler::FollowUpHandler| FollowUp {
            kind: follow.kind.to_string(),
            gives: Some(follow.gives.into()),
        };
        Self {
            runner: handler.runner.to_string(),
            settings: raw(&settings, format),
            queue: Some(handler.queue.to_string()),
            retry: Some((&handler.retry).into()),
            timeout: handler.timeout.map(Period),
            results: Some(Results {
                answer: Some(handler.results.answer.into()),
                success: handler.results.success,
                failure: handler.results.failure,
                keep: Some(Period(handler.results.keep)),
            }),
            pooled: handler.pooled,
            next: handler.next.iter().map(follow).collect(),
            on_failure: handler.on_failure.iter().map(follow).collect(),
            every: handler.every.map(Period),
            schedule: handler.schedule.as_ref().map(|planned| HandlerScheduleSpec {
                timing: planned.timing.to_string(),
                missed: Some(planned.missed.into()),
                payload: raw(&planned.payload, format),
            }),
        }
    }
}

impl Results {
    fn read(self) -> handler::ResultPolicy {
        let defaults = handler::ResultPolicy::default();
        handler::ResultPolicy {
            answer: self.answer.map_or(defaults.answer, Into::into),
            success: self.success,
            failure: self.failure,
            keep: self.keep.map_or(defaults.keep, |keep| keep.0),
        }
    }
}

impl HandlerScheduleSpec {
    fn read(self) -> Result<handler::HandlerSchedule, Invalid> {
        let payload =
            self.payload.as_ref().map(|raw| value("schedule.payload", raw)).transpose()?;
        Ok(handler::HandlerSchedule {
            timing: crore_core::schedule::Timing::parse("schedule.timing", &self.timing)?,
            missed: self.missed.unwrap_or(Missed::Skip).into(),
            payload: payload.unwrap_or(Value::Null),
        })
    }
}

fn follow_up_handlers(
    field: &str,
    follow_ups: &[FollowUp],
) -> Result<Vec<handler::FollowUpHandler>, Invalid> {
    let follow = |(n, follow): (usize, &FollowUp)| {
        let kind = Name::new(&format!("{field}[{n}].kind"), &follow.kind)?;
        Ok(handler::FollowUpHandler {
            kind,
            gives: follow.gives.map_or_else(Default::default, Into::into),
        })
    };
    follow_ups.iter().enumerate().map(follow).collect()
}
