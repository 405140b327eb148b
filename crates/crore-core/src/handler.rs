//! Handlers: stored definitions of how jobs of a kind are run, and of the follow-ups when they end.

pub mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::caps::Caps;
use crate::code::{Code, Invalid};
use crate::group::SEALED_GROUP_LABEL;
use crate::job::{DueTime, Job, ResultRetention, Spec, State};
use crate::name::Name;
use crate::payload::{Encoding, Payload};
use crate::push::{NewJob, UnsetFields, within};
use crate::retry::Retry;
use crate::schedule::{MIN_EVERY, Missed, Timing};
use crate::time::{Span, Time};
use crate::unique::{Unique, UniqueHold};

/// Default queue of a handler.
pub const DEFAULT_QUEUE: &str = "default";

/// Label with the phase of a repeated job: an instant in milliseconds; every run is due a whole number
/// of intervals after it.
pub const PHASE_LABEL: &str = "crore.phase";

/// Label with the id of the handler that a job was pushed for. It identifies the handler after it was
/// removed or renamed.
pub const HANDLER_LABEL: &str = "crore.handler";

/// Id of the built-in handlers of a door.
pub const BUILT_IN_ID: u64 = u64::MAX;

/// Label with the id of the first job in a chain of repeated runs.
pub const CHAIN_LABEL: &str = "crore.chain";

/// Label of a job whose result only the caller gets that pushed it and waits for it. Not reserved: doors set it, and a
/// caller that sets it hides only its own result.
pub const PRIVATE_RESULT_LABEL: &str = "private-result";

/// Maximum size of the output in a summary, in bytes.
const SUMMARY_BYTES: usize = 64 << 10;

/// Default retention of results.
pub const DEFAULT_RESULT_RETENTION: Span = Span::from_secs(24 * 60 * 60);

/// Maximum number of former kinds of a handler.
pub const MAX_FORMER_KINDS: usize = 16;

/// Maximum number of handlers that may follow one.
pub const MAX_FOLLOW_UP_HANDLERS: usize = 100;

/// How jobs of a kind are run.
///
/// Stored: a new field needs a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Handler {
    /// The id: assigned from 1 upwards and never reused.
    #[serde(default)]
    pub id: u64,
    /// The runner: `command`, `http`, …
    pub runner: Name,
    /// Settings of the runner.
    pub settings: Map<String, Value>,
    /// The queue of the jobs, and so the channel that runs them.
    pub queue: Name,
    /// Retry policy.
    pub retry: Retry,
    /// Timeout of one run.
    pub timeout: Option<Span>,
    /// Retention of results.
    pub results: ResultPolicy,
    /// Whether runner instances are pooled and reused.
    pub pooled: bool,
    /// Handlers that follow when a job is done.
    pub next: Vec<FollowUpHandler>,
    /// Handlers that follow when a job is dead.
    pub on_failure: Vec<FollowUpHandler>,
    /// Handlers that follow this one, by id. An id without a handler is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<u64>,
    /// The outcomes that this handler follows if other handlers link to it.
    #[serde(default, skip_serializing_if = "LinkPolicy::is_default")]
    pub linked: LinkPolicy,
    /// Repeat interval: an ended job is pushed again, due a whole number of intervals after its first due
    /// time.
    pub every: Option<Span>,
    /// Schedule that pushes jobs of this handler.
    #[serde(default)]
    pub schedule: Option<HandlerSchedule>,
    /// Whether a follow-up inherits the timeout of its parent, if this handler sets none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherits_timeout: bool,
    /// Former kinds, newest first; pending jobs of these kinds still belong to this handler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formerly: Vec<Name>,
    /// Free-form data of the door that defined the handler.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The schedule of a handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HandlerSchedule {
    /// When it fires.
    pub timing: Timing,
    /// Policy for missed ticks.
    pub missed: Missed,
    /// Payload of the pushed jobs.
    pub payload: Value,
}

/// Retention and delivery of the results of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ResultPolicy {
    /// Which callers can wait for the result.
    pub answer: ResultWaiter,
    /// Whether results of done jobs are stored.
    pub success: bool,
    /// Whether results of dead jobs are stored.
    pub failure: bool,
    /// Retention.
    pub keep: Span,
}

impl Default for ResultPolicy {
    fn default() -> Self {
        Self {
            answer: ResultWaiter::None,
            success: false,
            failure: false,
            keep: DEFAULT_RESULT_RETENTION,
        }
    }
}

impl ResultPolicy {
    /// The result retention of one job.
    pub const fn keep(&self) -> ResultRetention {
        let is_kept = self.success || self.failure || !matches!(self.answer, ResultWaiter::None);
        if is_kept { ResultRetention::For(self.keep) } else { ResultRetention::Discard }
    }
}

/// Which callers can wait for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultWaiter {
    /// None.
    #[default]
    None,
    /// The caller that pushes the job: the push returns the result.
    Push,
    /// Any caller, in a separate call.
    Listen,
}

/// A handler that follows another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FollowUpHandler {
    /// The kind of the handler.
    pub kind: Name,
    /// Payload of its jobs.
    #[serde(default)]
    pub gives: FollowUpPayload,
}

/// The outcomes that a handler follows if other handlers [link](Handler::links) to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkPolicy {
    /// Whether it follows jobs that are done.
    pub on_success: bool,
    /// Whether it follows jobs that are dead.
    pub on_failure: bool,
    /// Payload of its jobs.
    pub gives: FollowUpPayload,
}

impl Default for LinkPolicy {
    fn default() -> Self {
        Self { on_success: true, on_failure: false, gives: FollowUpPayload::Items }
    }
}

impl LinkPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// All handlers that follow a handler: those named by kind, then those linked by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowUpHandlers {
    /// After jobs that are done.
    pub next: Vec<FollowUpHandler>,
    /// After jobs that are dead.
    pub on_failure: Vec<FollowUpHandler>,
}

/// Payload of a follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FollowUpPayload {
    /// One job per item of the result, with the item as its payload.
    #[default]
    Items,
    /// One job, with a JSON object that describes the ended job: see [`summary`].
    Summary,
}

/// The end of a job, as seen by its follow-ups.
#[derive(Debug, Clone, Copy)]
pub enum JobEnd<'a> {
    /// Done, with its result.
    Done(Option<&'a Payload>),
    /// Dead, with its error message.
    Dead(&'a str),
}

impl Handler {
    /// A handler with the defaults of the native doors.
    pub fn new(runner: Name, settings: Map<String, Value>) -> Self {
        Self {
            id: 0,
            runner,
            settings,
            queue: Name::new("queue", DEFAULT_QUEUE).expect("`default` is a valid name"),
            retry: Retry::default(),
            timeout: None,
            results: ResultPolicy::default(),
            pooled: false,
            next: Vec::new(),
            on_failure: Vec::new(),
            links: Vec::new(),
            linked: LinkPolicy::default(),
            every: None,
            schedule: None,
            inherits_timeout: false,
            formerly: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    /// The stored form: JSON.
    pub fn to_text(&self) -> Arc<str> {
        serde_json::to_string(self).expect("all map keys are strings").into()
    }

    /// Parses the stored form.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Validates every field except the runner's settings.
    pub fn check(&self, caps: &Caps) -> Result<(), Invalid> {
        let bytes = self.to_text().len();
        if bytes > caps.payload_bytes {
            let message = format!("{bytes} bytes, at most {} are allowed", caps.payload_bytes);
            return Err(Invalid::new(Code::PayloadTooLarge, "settings", message));
        }
        self.retry.check("retry")?;
        let shortest = Span::from_millis(1);
        if let Some(timeout) = self.timeout {
            within(Code::TimeoutRange, "timeout", timeout, shortest, caps.max_timeout)?;
        }
        let keep = self.results.keep;
        within(Code::TimeRange, "results.keep", keep, shortest, caps.max_retention)?;
        if let Some(every) = self.every {
            within(Code::TimeRange, "every", every, MIN_EVERY, caps.max_ahead)?;
        }
        let (next, on_failure, links) = (self.next.len(), self.on_failure.len(), self.links.len());
        for (field, n) in [("next", next), ("on_failure", on_failure), ("next", links)] {
            if n > MAX_FOLLOW_UP_HANDLERS {
                let message = format!("{n} handlers, at most {MAX_FOLLOW_UP_HANDLERS} are allowed");
                return Err(Invalid::new(Code::CountRange, field, message));
            }
        }
        Ok(())
    }

    /// Sets the fields that the caller left unset.
    pub fn fill_unset(&self, spec: &mut Spec, unsaid: UnsetFields) {
        if unsaid.queue {
            spec.queue = self.queue.clone();
        }
        if unsaid.retry {
            spec.retry = self.retry;
        }
        if unsaid.timeout {
            spec.timeout = self.timeout;
        }
        if unsaid.keep {
            spec.keep = self.results.keep();
        }
    }

    /// A job of this handler with its defaults.
    pub fn job(&self, kind: Name, payload: Payload) -> Spec {
        let mut spec = Spec::new(self.queue.clone(), kind, payload);
        self.fill_unset(&mut spec, UnsetFields::ALL);
        spec
    }

    /// The job that the handler's schedule pushes, if it has a schedule.
    pub fn scheduled_job(&self, kind: &Name) -> Option<NewJob> {
        let payload = Payload::json(&self.schedule.as_ref()?.payload.to_string());
        let spec = Spec::new(self.queue.clone(), kind.clone(), payload);
        Some(NewJob { unset: UnsetFields::ALL, ..spec.into() })
    }

    /// All handlers that follow this one. `by_id` looks up a handler and its kind.
    pub fn follows<'a>(
        &self,
        by_id: impl Fn(u64) -> Option<(&'a Name, &'a Self)>,
    ) -> FollowUpHandlers {
        let mut follows =
            FollowUpHandlers { next: self.next.clone(), on_failure: self.on_failure.clone() };
        for (kind, handler) in self.links.iter().filter_map(|id| by_id(*id)) {
            let LinkPolicy { on_success, on_failure, gives } = handler.linked;
            let follow = FollowUpHandler { kind: kind.clone(), gives };
            follows.next.extend(on_success.then(|| follow.clone()));
            follows.on_failure.extend(on_failure.then_some(follow));
        }
        follows
    }

    /// The follow-ups of a job of this handler: jobs of each [following](Self::follows) kind, with the defaults of
    /// the handler that `lookup` finds for it, and the next run of a repeated job. Jobs of a kind without a handler go
    /// to the queue named after the kind, for external workers. Stops with one job more than `max_jobs`, so
    /// that the caller refuses the batch as too large.
    pub fn follow_ups<'a>(
        &self,
        job: &Job,
        (end, follows): (JobEnd<'_>, &FollowUpHandlers),
        (now, max_jobs): (Time, usize),
        lookup: impl Fn(&Name) -> Option<&'a Self>,
    ) -> Vec<NewJob> {
        let follows = match end {
            JobEnd::Done(_) => &follows.next,
            JobEnd::Dead(_) => &follows.on_failure,
        };
        let mut jobs: Vec<NewJob> = Vec::new();
        for follow in follows {
            let handler = lookup(&follow.kind);
            for payload in payloads(job, end, now, follow.gives) {
                if jobs.len() > max_jobs {
                    return jobs;
                }
                let kind = follow.kind.clone();
                let mut spec = match handler {
                    Some(handler) => handler.job(kind, payload),
                    None => Spec::new(kind.clone(), kind, payload),
                };
                spec.priority = job.spec.priority;
                if handler.is_some_and(|it| it.inherits_timeout && it.timeout.is_none()) {
                    spec.timeout = job.spec.timeout;
                }
                spec.trace.clone_from(&job.spec.trace);
                spec.pusher = job.spec.pusher;
                jobs.push(spec.into());
            }
        }
        jobs.extend(self.next_run(job, now));
        jobs
    }

    /// The next run of a repeated job.
    fn next_run(&self, job: &Job, now: Time) -> Option<NewJob> {
        let every = self.every?;
        let phase = job.spec.labels.get(PHASE_LABEL).and_then(|text| text.parse().ok());
        let phase = phase.map_or(job.live.pushed_at, Time::from_millis);
        let passed = now.since(phase).as_millis() / every.as_millis().max(1);
        let next = if now < phase { phase } else { phase.after(every.times(passed + 1)) };
        let mut spec = (*job.spec).clone();
        spec.client_id = None;
        spec.group = None;
        spec.after = Vec::new();
        spec.labels.remove(HANDLER_LABEL);
        spec.labels.remove(SEALED_GROUP_LABEL);
        spec.labels.insert(PHASE_LABEL.to_owned(), phase.as_millis().to_string());
        let first = spec.labels.entry(CHAIN_LABEL.to_owned()).or_insert_with(|| job.id.to_string());
        // The key prevents a second next run when a run is retried by hand. A hold other than `UntilEnd` could
        // outlive the job and block its next run.
        if spec.unique.as_ref().is_none_or(|unique| unique.hold != UniqueHold::UntilEnd) {
            let key = format!("{CHAIN_LABEL}:{first}").into();
            spec.unique = Some(Box::new(Unique { key, hold: UniqueHold::UntilEnd, window: None }));
        }
        Some(NewJob { due: DueTime::At(next), ..spec.into() })
    }
}

fn payloads(job: &Job, end: JobEnd<'_>, now: Time, gives: FollowUpPayload) -> Vec<Payload> {
    match (gives, end) {
        (FollowUpPayload::Items, JobEnd::Done(Some(result))) => items(result),
        (FollowUpPayload::Items, JobEnd::Done(None)) => Vec::new(),
        (FollowUpPayload::Summary, _) | (FollowUpPayload::Items, JobEnd::Dead(_)) => {
            vec![Payload::json(&summary(job, end, now).to_string())]
        }
    }
}

/// The items of a result that are passed on: all that are not empty.
pub fn items(result: &Payload) -> Vec<Payload> {
    all_items(result).into_iter().filter(|item| !item.bytes.is_empty()).collect()
}

/// The items of a result: those of a MessagePack array of binaries; any other result is one item.
pub fn all_items(result: &Payload) -> Vec<Payload> {
    let many = match result.encoding {
        Encoding::Msgpack => rmp_serde::from_slice::<Vec<MsgpackBinary>>(&result.bytes).ok(),
        _ => None,
    };
    match many {
        Some(many) => many
            .into_iter()
            .map(|MsgpackBinary(bytes)| Payload::new(Encoding::Bytes, bytes))
            .collect(),
        None => vec![result.clone()],
    }
}

/// Encodes several items as one result.
pub fn join_items(items: &[&[u8]]) -> Payload {
    let mut bytes = Vec::new();
    let array = u32::try_from(items.len()).unwrap_or(u32::MAX);
    bytes.push(0xdd);
    bytes.extend(array.to_be_bytes());
    for item in items {
        bytes.push(0xc6);
        bytes.extend(u32::try_from(item.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(item);
    }
    Payload::new(Encoding::Msgpack, bytes)
}

/// A MessagePack binary; a string or an array is refused.
struct MsgpackBinary(Vec<u8>);

impl<'de> Deserialize<'de> for MsgpackBinary {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = MsgpackBinary;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a binary")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<MsgpackBinary, E> {
                Ok(MsgpackBinary(bytes.to_vec()))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<MsgpackBinary, E> {
                Ok(MsgpackBinary(bytes))
            }
        }
        reader.deserialize_any(Visitor)
    }
}

/// Summary of an ended job: `job`, `kind`, `state`, `output` (truncated), `error`, `attempt`,
/// `scheduled_at`, `started_at` and `ended_at`, times in milliseconds.
pub fn summary(job: &Job, end: JobEnd<'_>, now: Time) -> Value {
    let (state, output, error) = match end {
        JobEnd::Done(result) => {
            let items = result.map(items).unwrap_or_default();
            let text = |item: &Payload| String::from_utf8_lossy(&item.bytes).into_owned();
            let mut output = items.iter().map(text).collect::<Vec<_>>().join("\n");
            output.truncate(output.floor_char_boundary(SUMMARY_BYTES));
            (State::Done, output, None)
        }
        JobEnd::Dead(error) => (State::Dead, String::new(), Some(error)),
    };
    serde_json::json!({
        "job": job.id.to_string(),
        "kind": job.spec.kind,
        "state": state,
        "output": output,
        "error": error,
        "attempt": job.live.attempt,
        "scheduled_at": job.live.due.as_millis(),
        "started_at": job.live.started_at.as_millis(),
        "ended_at": now.as_millis(),
    })
}

#[cfg(test)]
mod tests;
