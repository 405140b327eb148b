//! What a runner is, what it is given, and what it gives.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use crore_core::machine::Again;
use crore_core::{Delivery, Encoding, Invalid, JobId, Name, Payload, Span};
use serde_json::{Map, Value};

use crate::context::Context;

/// A run under way.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send + 'a>>;

/// A runner that is being made.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Runner>, Failure>> + Send + 'a>>;

/// A sort of runner that begins.
pub type Beginning<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs jobs, with the settings that it was made with. One that is pooled runs many, one at a time.
pub trait Runner: Debug + Send + Sync {
    /// Runs a job. When [`Context::stopped`] says so it ends whatever it has begun, and returns
    /// [`Failure::stopped`]; it leaves nothing behind, also if it is dropped halfway.
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a>;
}

/// A sort of runner: it knows its settings, and makes runners from them.
pub trait Maker: Debug + Send + Sync {
    /// What handlers call it.
    fn name(&self) -> &'static str;

    /// Whether it reaches this machine or others in a way that only its operator may allow: such a
    /// sort is switched on by name.
    fn needs_leave(&self) -> bool;

    /// Called once when a host begins that may use this sort, while it already takes jobs: for what is
    /// to be done before there is one, such as to remove what a host has left that was killed.
    fn begin(&self) -> Beginning<'_> {
        Box::pin(std::future::ready(()))
    }

    /// Checks settings, and does nothing else. What is wrong is told with its field, as
    /// `settings.program`.
    fn check(&self, settings: &Value) -> Result<(), Invalid>;

    /// Makes a runner. What takes long and is the same for all jobs is done here, so that a pooled
    /// runner does it once.
    fn make<'a>(&'a self, settings: &'a Value) -> Making<'a>;
}

/// What is to be run: one delivery of a job.
#[derive(Debug, Clone)]
pub struct Task {
    /// The job.
    pub job: JobId,
    /// Which delivery of it.
    pub delivery: Delivery,
    /// Its kind.
    pub kind: Name,
    /// How many deliveries count so far, this one among them.
    pub attempt: u32,
    /// What it is to be run with.
    pub payload: Item,
    /// How long it may take; whoever gave it says when that is over, see [`Context::stopped`].
    pub timeout: Option<Span>,
    /// The trace that it belongs to, as W3C writes it.
    pub trace: Option<Arc<str>>,
}

impl Task {
    /// What stays the same however often this job is run, for callees that know such keys.
    pub fn idempotency_key(&self) -> String {
        format!("crore-{}", self.job)
    }
}

/// What a run gives: nearly always one item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// What came out, in order. Handlers that follow are given each item as a job of its own.
    pub items: Vec<Item>,
}

/// Bytes and their encoding: what a run is given, or one thing that came out of it. Cloning shares the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What the bytes are: text, JSON, or anything.
    pub encoding: Encoding,
    /// The bytes.
    pub bytes: Bytes,
}

impl From<Payload> for Item {
    fn from(Payload { encoding, bytes }: Payload) -> Self {
        Self { encoding, bytes: Bytes::from_owner(bytes) }
    }
}

impl Output {
    /// One item of bytes. Such as are UTF-8 count as text.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let is_text = std::str::from_utf8(&bytes).is_ok();
        let encoding = if is_text { Encoding::Text } else { Encoding::Bytes };
        Self { items: vec![Item { encoding, bytes }] }
    }

    /// One item of JSON.
    pub fn json(value: &Value) -> Self {
        let bytes = value.to_string().into();
        Self { items: vec![Item { encoding: Encoding::Json, bytes }] }
    }
}

/// Of what sort a failure is; clients of the jobworkerp door are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may go better next time.
    Again,
    /// It cannot be run at all: settings, a missing program, a refusal.
    Fatal,
    /// The callee gave it up.
    Aborted,
    /// It was asked to stop, and did.
    Stopped,
    /// Anything else that would not go better next time.
    Other,
}

impl Class {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Again => "again",
            Self::Fatal => "fatal",
            Self::Aborted => "aborted",
            Self::Stopped => "stopped",
            Self::Other => "other",
        }
    }
}

/// Why a run did not go well.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// What went wrong, in words, without secrets.
    pub error: String,
    /// Of what sort.
    pub class: Class,
    /// Whether and when to try again.
    pub again: Again,
    /// More of it, for programs: `exit_code`, `status`, `stderr`.
    pub detail: Map<String, Value>,
}

impl Failure {
    fn new(class: Class, again: Again, error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), class, again, detail: Map::new() }
    }

    /// It may go better next time: it is tried again as the job's policy says.
    pub fn again(error: impl fmt::Display) -> Self {
        Self::new(Class::Again, Again::ByPolicy, error)
    }

    /// It may go better after this long.
    pub fn after(span: Span, error: impl fmt::Display) -> Self {
        Self::new(Class::Again, Again::After(span), error)
    }

    /// It cannot be run at all.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self::new(Class::Fatal, Again::Never, error)
    }

    /// The callee gave it up.
    pub fn aborted(error: impl fmt::Display) -> Self {
        Self::new(Class::Aborted, Again::Never, error)
    }

    /// It failed, and would again.
    pub fn other(error: impl fmt::Display) -> Self {
        Self::new(Class::Other, Again::Never, error)
    }

    /// It was asked to stop, and has.
    pub fn stopped() -> Self {
        Self::new(Class::Stopped, Again::ByPolicy, "stopped because it was asked to")
    }

    /// With one more detail.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(name.to_owned(), value.into());
        self
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::fatal(invalid).with("reason", "settings")
    }
}
