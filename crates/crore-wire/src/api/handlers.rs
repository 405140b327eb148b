//! Handlers: how jobs of a kind are run.

use crore_core::{Code, Invalid, Name, handler};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::retry::Retry;
use super::words::{AnswerTo, Gives, Missed};
use crate::words::{Moment, Period};
use crate::{Format, Raw};

/// A handler to set. Only `runner` is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetHandler {
    /// The sort of runner: `command`, `http`, `grpc`, `docker`, `plugin`, `slack`, or one of your own.
    #[schema(min_length = 1, max_length = 255, example = "command")]
    pub runner: String,
    /// What that runner is told: an object, whose fields are the runner's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"program": "ls"}))]
    pub settings: Option<Raw>,
    /// Where its jobs wait, unless their pushers say otherwise, and by that the channel whose runners run
    /// them; `default` unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub queue: Option<String>,
    /// When its jobs are tried again, unless their pushers say otherwise.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<Retry>,
    /// How long a run may take, unless its pusher says otherwise; as long as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// What becomes of results; they are not kept, unless told otherwise.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub results: Option<Results>,
    /// Whether runners are kept and used again.
    #[serde(default)]
    pub pooled: bool,
    /// Who is given what comes out, when a job is done: each item is a job of the next one.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(max_items = 100)]
    pub next: Vec<Follow>,
    /// Who is told when a job is dead.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(max_items = 100)]
    pub on_failure: Vec<Follow>,
    /// When a job has ended it is pushed again, whole intervals after it was first due; at least 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Period>,
    /// Jobs that the clock pushes.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub schedule: Option<Planned>,
}

/// What becomes of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Who waits for them; nobody, unless told otherwise. A result that anybody waits for is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerTo>,
    /// Whether those of jobs that are done are kept.
    #[serde(default)]
    pub success: bool,
    /// Whether those of jobs that are dead are kept.
    #[serde(default)]
    pub failure: bool,
    /// How long; 24 h unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,
}

/// A handler that follows another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    /// Its kind.
    #[schema(min_length = 1, max_length = 255)]
    pub kind: String,
    /// What its jobs are given; `items` unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gives: Option<Gives>,
}

/// Jobs of a handler that the clock pushes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// When: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`.
    #[schema(example = "cron 0 3 * * *", max_length = 128)]
    pub timing: String,
    /// What becomes of ticks that nobody was there for; `skip` unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// What the jobs are given; nothing, unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
}

/// A handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Handler {
    /// The kind.
    pub kind: String,
    /// Its number: no other handler ever has it. One that the server itself brings along has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// When its schedule fires next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_at: Option<Moment>,
    /// What it says.
    #[serde(flatten)]
    pub says: SetHandler,
}

/// All handlers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Handlers {
    /// By kind.
    pub handlers: Vec<Handler>,
    /// The kinds whose handlers are stored and cannot be read: nobody runs their jobs until they are set anew, or
    /// removed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unreadable: Vec<String>,
}

/// A value as JSON keeps it.
fn value(field: &str, raw: &Raw) -> Result<Value, Invalid> {
    let wrong = || Invalid::new(Code::Malformed, field, "is not a value that JSON has a word for");
    let json = raw.convert(Format::Json).ok_or_else(wrong)?;
    serde_json::from_slice(json.bytes()).map_err(|_| wrong())
}

fn raw(value: &Value, format: Format) -> Option<Raw> {
    Raw::new(Format::Json, value.to_string().into_bytes()).convert(format)
}

impl SetHandler {
    /// The handler that is meant, in the words of the rules.
    pub fn read(self) -> Result<handler::Handler, Invalid> {
        let settings = match &self.settings {
            None => serde_json::Map::new(),
            Some(raw) => match value("settings", raw)? {
                Value::Object(settings) => settings,
                _ => {
                    return Err(Invalid::new(Code::Malformed, "settings", "has to be an object"));
                }
            },
        };
        let mut meant = handler::Handler::new(Name::new("runner", &self.runner)?, settings);
        if let Some(queue) = &self.queue {
            meant.queue = Name::new("queue", queue)?;
        }
        if let Some(retry) = self.retry {
            meant.retry = retry.read()?;
        }
        meant.timeout = self.timeout.map(|timeout| timeout.0);
        meant.results = self.results.unwrap_or_default().read();
        meant.pooled = self.pooled;
        meant.next = follows("next", &self.next)?;
        meant.on_failure = follows("on_failure", &self.on_failure)?;
        meant.every = self.every.map(|every| every.0);
        meant.schedule = self.schedule.map(Planned::read).transpose()?;
        Ok(meant)
    }

    /// A handler as it would be set, in a body of this format.
    pub fn of(handler: &handler::Handler, format: Format) -> Self {
        let settings = Value::Object(handler.settings.clone());
        let follow = |follow: &handler::Follow| Follow {
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
            schedule: handler.schedule.as_ref().map(|planned| Planned {
                timing: planned.timing.to_string(),
                missed: Some(planned.missed.into()),
                payload: raw(&planned.payload, format),
            }),
        }
    }
}

impl Results {
    fn read(self) -> handler::Results {
        let usual = handler::Results::default();
        handler::Results {
            answer: self.answer.map_or(usual.answer, Into::into),
            success: self.success,
            failure: self.failure,
            keep: self.keep.map_or(usual.keep, |keep| keep.0),
        }
    }
}

impl Planned {
    fn read(self) -> Result<handler::Planned, Invalid> {
        let payload =
            self.payload.as_ref().map(|raw| value("schedule.payload", raw)).transpose()?;
        Ok(handler::Planned {
            timing: crore_core::schedule::Timing::parse("schedule.timing", &self.timing)?,
            missed: self.missed.unwrap_or(Missed::Skip).into(),
            payload: payload.unwrap_or(Value::Null),
        })
    }
}

fn follows(field: &str, said: &[Follow]) -> Result<Vec<handler::Follow>, Invalid> {
    let follow = |(n, follow): (usize, &Follow)| {
        let kind = Name::new(&format!("{field}[{n}].kind"), &follow.kind)?;
        Ok(handler::Follow { kind, gives: follow.gives.map_or_else(Default::default, Into::into) })
    };
    said.iter().enumerate().map(follow).collect()
}
