//! Handlers: stored definitions of how jobs of a kind are run, and what follows when they end.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::caps::Caps;
use crate::code::{Code, Invalid};
use crate::job::{Job, Keep, Spec, State, When};
use crate::name::Name;
use crate::payload::{Encoding, Payload};
use crate::push::{NewJob, Unsaid, within};
use crate::retry::Retry;
use crate::schedule::{MIN_EVERY, Missed, Timing};
use crate::time::{Span, Time};
use crate::unique::{Hold, Unique};

/// The queue of a handler that names none.
pub const DEFAULT_QUEUE: &str = "default";

/// The label that keeps the phase of a job that is pushed again and again: an instant, in
/// milliseconds, from which its runs are whole intervals away.
pub const PHASE: &str = "crore.phase";

/// The label with the number of the handler that a job was pushed for: it tells whose job it was when
/// the handler is gone, or has another name.
pub const HANDLER: &str = "crore.handler";

/// The number of handlers that a door brings along: they are not counted.
pub const BUILT_IN: u64 = u64::MAX;

/// The label that names the first of the jobs of which each is the next run of the one before.
pub const CHAIN: &str = "crore.chain";

/// So much of what came out is told in a summary, in bytes.
const SUMMARY_BYTES: usize = 64 << 10;

/// How long a result is kept, unless a handler says otherwise.
pub const KEEP_RESULT: Span = Span::from_secs(24 * 60 * 60);

/// How many kinds that a handler had before are remembered.
pub const MAX_FORMERLY: usize = 16;

/// The most handlers that may follow one.
pub const MAX_FOLLOWS: usize = 100;

/// How jobs of a kind are run.
///
/// Stored: a new field needs a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Handler {
    /// Its number: counted up from 1, and never used again.
    #[serde(default)]
    pub id: u64,
    /// The sort of runner that runs them.
    pub runner: Name,
    /// What that runner is told, as its own documentation says.
    pub settings: Map<String, Value>,
    /// Where they wait, and by that the channel whose runners run them.
    pub queue: Name,
    /// How failures are retried.
    pub retry: Retry,
    /// How long one run may take.
    pub timeout: Option<Span>,
    /// What becomes of results.
    pub results: Results,
    /// Whether a runner is kept and used again.
    pub pooled: bool,
    /// Who is given what comes out, when a job is done.
    pub next: Vec<Follow>,
    /// Who is told when a job is dead.
    pub on_failure: Vec<Follow>,
    /// Handlers that follow this one, by number. A number without a handler is skipped until there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<u64>,
    /// The ends of jobs that this handler follows where others link to it.
    #[serde(default, skip_serializing_if = "Linked::is_default")]
    pub linked: Linked,
    /// When a job has ended it is pushed again, whole intervals after it was first due.
    pub every: Option<Span>,
    /// Jobs that the clock pushes.
    #[serde(default)]
    pub schedule: Option<Planned>,
    /// Whether a job of this handler that follows another has the timeout of that one, if this handler
    /// says none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherits_timeout: bool,
    /// The kinds that it had before, newest first: jobs of those that wait are still its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formerly: Vec<Name>,
    /// What a door wants to find again and has no field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Jobs of a handler that the clock pushes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Planned {
    /// When.
    pub timing: Timing,
    /// What becomes of ticks that nobody was there for.
    pub missed: Missed,
    /// What they are given.
    pub payload: Value,
}

/// What becomes of the results of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Results {
    /// Who waits for them.
    pub answer: Answer,
    /// Whether those of jobs that are done are kept.
    pub success: bool,
    /// Whether those of jobs that are dead are kept.
    pub failure: bool,
    /// How long.
    pub keep: Span,
}

impl Default for Results {
    fn default() -> Self {
        Self { answer: Answer::None, success: false, failure: false, keep: KEEP_RESULT }
    }
}

impl Results {
    /// What that means for one job.
    pub const fn keep(&self) -> Keep {
        let is_kept = self.success || self.failure || !matches!(self.answer, Answer::None);
        if is_kept { Keep::For(self.keep) } else { Keep::Discard }
    }
}

/// Who waits for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Nobody.
    #[default]
    None,
    /// Whoever pushes the job.
    Push,
    /// Whoever asks for it afterwards.
    Listen,
}

/// A handler that follows another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Follow {
    /// Its kind.
    pub kind: Name,
    /// What its jobs are given.
    #[serde(default)]
    pub gives: Gives,
}

/// The ends of jobs that a handler follows where other handlers [link](Handler::links) to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Linked {
    /// Whether it follows jobs that are done.
    pub on_success: bool,
    /// Whether it follows jobs that are dead.
    pub on_failure: bool,
    /// The payloads of its jobs.
    pub gives: Gives,
}

impl Default for Linked {
    fn default() -> Self {
        Self { on_success: true, on_failure: false, gives: Gives::Items }
    }
}

impl Linked {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Everything that follows a handler: what it names by kind, then what it links to by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Follows {
    /// After jobs that are done.
    pub next: Vec<Follow>,
    /// After jobs that are dead.
    pub on_failure: Vec<Follow>,
}

/// What a job that follows another is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gives {
    /// One job for each item that came out, with that item.
    #[default]
    Items,
    /// One job, with a JSON object about the job that has ended: see [`summary`].
    Summary,
}

/// How a job came to its end, for those who follow.
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    /// It is done, and gave this.
    Done(Option<&'a Payload>),
    /// It is dead, of this.
    Dead(&'a str),
}

impl Handler {
    /// A handler with the defaults of the native doors.
    pub fn new(runner: Name, settings: Map<String, Value>) -> Self {
        Self {
            id: 0,
            runner,
            settings,
            queue: Name::new("queue", DEFAULT_QUEUE).expect("it is a good name"),
            retry: Retry::default(),
            timeout: None,
            results: Results::default(),
            pooled: false,
            next: Vec::new(),
            on_failure: Vec::new(),
            links: Vec::new(),
            linked: Linked::default(),
            every: None,
            schedule: None,
            inherits_timeout: false,
            formerly: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    /// The form in which it is stored.
    pub fn to_text(&self) -> Arc<str> {
        serde_json::to_string(self).expect("all its keys are texts").into()
    }

    /// Reads the stored form; `None`: it is none.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Checks every field that is not the runner's own.
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
            if n > MAX_FOLLOWS {
                let message = format!("{n} handlers, at most {MAX_FOLLOWS} are allowed");
                return Err(Invalid::new(Code::CountRange, field, message));
            }
        }
        Ok(())
    }

    /// Says what the pusher of a job has left unsaid.
    pub fn fill_in(&self, spec: &mut Spec, unsaid: Unsaid) {
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

    /// A job of this handler.
    pub fn job(&self, kind: Name, payload: Payload) -> Spec {
        let mut spec = Spec::new(self.queue.clone(), kind, payload);
        self.fill_in(&mut spec, Unsaid::ALL);
        spec
    }

    /// The job that its schedule pushes, if it has one.
    pub fn planned_job(&self, kind: &Name) -> Option<NewJob> {
        let payload = Payload::json(&self.schedule.as_ref()?.payload.to_string());
        let spec = Spec::new(self.queue.clone(), kind.clone(), payload);
        Some(NewJob { unsaid: Unsaid::ALL, ..spec.into() })
    }

    /// Everything that follows this handler. `by_number` finds a handler and its kind.
    pub fn follows<'a>(&self, by_number: impl Fn(u64) -> Option<(&'a Name, &'a Self)>) -> Follows {
        let mut follows = Follows { next: self.next.clone(), on_failure: self.on_failure.clone() };
        for (kind, handler) in self.links.iter().filter_map(|number| by_number(*number)) {
            let Linked { on_success, on_failure, gives } = handler.linked;
            let follow = Follow { kind: kind.clone(), gives };
            follows.next.extend(on_success.then(|| follow.clone()));
            follows.on_failure.extend(on_failure.then_some(follow));
        }
        follows
    }

    /// The jobs that follow when one of this handler has ended: those of the handlers that [follow](Self::follows),
    /// as far as they are known, and its own next run.
    pub fn follow_ups<'a>(
        &self,
        job: &Job,
        (end, follows): (End<'_>, &Follows),
        (now, most): (Time, usize),
        known: impl Fn(&Name) -> Option<&'a Self>,
    ) -> Vec<NewJob> {
        let follows = match end {
            End::Done(_) => &follows.next,
            End::Dead(_) => &follows.on_failure,
        };
        let mut jobs: Vec<NewJob> = Vec::new();
        for follow in follows {
            let Some(handler) = known(&follow.kind) else { continue };
            for payload in payloads(job, end, now, follow.gives) {
                if jobs.len() > most {
                    return jobs;
                }
                let mut spec = handler.job(follow.kind.clone(), payload);
                spec.priority = job.spec.priority;
                if handler.inherits_timeout && handler.timeout.is_none() {
                    spec.timeout = job.spec.timeout;
                }
                spec.trace.clone_from(&job.spec.trace);
                jobs.push(spec.into());
            }
        }
        jobs.extend(self.next_run(job, now));
        jobs
    }

    /// The next run of a job that is pushed again and again.
    fn next_run(&self, job: &Job, now: Time) -> Option<NewJob> {
        let every = self.every?;
        let phase = job.spec.labels.get(PHASE).and_then(|text| text.parse().ok());
        let phase = phase.map_or(job.live.pushed_at, Time::from_millis);
        let passed = now.since(phase).as_millis() / every.as_millis().max(1);
        let next = if now < phase { phase } else { phase.after(every.times(passed + 1)) };
        let mut spec = (*job.spec).clone();
        spec.client_id = None;
        spec.group = None;
        spec.after = Vec::new();
        spec.labels.remove(HANDLER);
        spec.labels.insert(PHASE.to_owned(), phase.as_millis().to_string());
        let first = spec.labels.entry(CHAIN.to_owned()).or_insert_with(|| job.id.to_string());
        // A run that is retried by hand has had its next one, and a key that outlives its job would keep the next one out.
        if spec.unique.as_ref().is_none_or(|unique| unique.hold != Hold::UntilEnd) {
            let key = format!("{CHAIN}:{first}").into();
            spec.unique = Some(Unique { key, hold: Hold::UntilEnd, window: None });
        }
        Some(NewJob { due: When::At(next), ..spec.into() })
    }
}

fn payloads(job: &Job, end: End<'_>, now: Time, gives: Gives) -> Vec<Payload> {
    match (gives, end) {
        (Gives::Items, End::Done(Some(result))) => items(result),
        (Gives::Items, End::Done(None)) => Vec::new(),
        (Gives::Summary, _) | (Gives::Items, End::Dead(_)) => {
            vec![Payload::json(&summary(job, end, now).to_string())]
        }
    }
}

/// The items of a result that are passed on: those that are empty do not count.
pub fn items(result: &Payload) -> Vec<Payload> {
    all_items(result).into_iter().filter(|item| !item.bytes.is_empty()).collect()
}

/// The items of a result: a MessagePack array of binaries has many, and anything else is one.
pub fn all_items(result: &Payload) -> Vec<Payload> {
    let many = match result.encoding {
        Encoding::Msgpack => rmp_serde::from_slice::<Vec<Bin>>(&result.bytes).ok(),
        _ => None,
    };
    match many {
        Some(many) => {
            many.into_iter().map(|Bin(bytes)| Payload::new(Encoding::Bytes, bytes)).collect()
        }
        None => vec![result.clone()],
    }
}

/// Several items as one result.
pub fn joined(items: &[&[u8]]) -> Payload {
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

/// A MessagePack binary; a text or an array is none.
struct Bin(Vec<u8>);

impl<'de> Deserialize<'de> for Bin {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bin;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a binary")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bin, E> {
                Ok(Bin(bytes.to_vec()))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bin, E> {
                Ok(Bin(bytes))
            }
        }
        reader.deserialize_any(Visitor)
    }
}

/// What is told about a job that has ended: `job`, `kind`, `state`, `output` (its start), `error`, `attempt`,
/// `scheduled_at`, `started_at` and `ended_at`, times in milliseconds.
pub fn summary(job: &Job, end: End<'_>, now: Time) -> Value {
    let (state, output, error) = match end {
        End::Done(result) => {
            let items = result.map(items).unwrap_or_default();
            let text = |item: &Payload| String::from_utf8_lossy(&item.bytes).into_owned();
            let mut output = items.iter().map(text).collect::<Vec<_>>().join("\n");
            output.truncate(output.floor_char_boundary(SUMMARY_BYTES));
            (State::Done, output, None)
        }
        End::Dead(error) => (State::Dead, String::new(), Some(error)),
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
