//! The traits of a runner, its input ([`Task`]) and its result ([`Output`] or [`RunFailure`]).

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use crore_core::machine::RetryDirective;
use crore_core::{Delivery, Encoding, Invalid, JobId, Name, Payload, Span, Time};
use serde_json::{Map, Value};

use crate::context::RunContext;

/// The future of [`Runner::run`].
pub type RunFuture<'a> = Pin<Box<dyn Future<Output = Result<Output, RunFailure>> + Send + 'a>>;

/// The future of [`RunnerFactory::make`].
pub type MakeFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Runner>, RunFailure>> + Send + 'a>>;

/// The future of [`RunnerFactory::prepare`].
pub type PrepareFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs jobs with the settings that it was made with. A pooled runner runs many jobs, one at a
/// time.
pub trait Runner: Debug + Send + Sync {
    /// Runs a job. After [`RunContext::stopped`] resolves, it ends everything that it started and
    /// returns [`RunFailure::stopped`]. It leaves nothing behind, even if its future is dropped early.
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a>;
}

/// A runner type: checks settings and makes runners from them.
pub trait RunnerFactory: Debug + Send + Sync {
    /// The name that handlers refer to.
    fn name(&self) -> &'static str;

    /// Whether the operator must allow this type by name, because its jobs have access to the host's
    /// machine.
    fn must_be_allowed(&self) -> bool;

    /// Called once when a host starts that may use this type, while the host already takes jobs.
    /// For preparations such as removing containers that a killed host has left.
    fn prepare(&self) -> PrepareFuture<'_> {
        Box::pin(std::future::ready(()))
    }

    /// Checks settings without side effects. An error names its field, as in `settings.program`.
    fn check(&self, settings: &Value) -> Result<(), Invalid>;

    /// Makes a runner. Work that is slow and the same for all jobs belongs here: a pooled runner
    /// does it once.
    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a>;
}

/// The input of a run: one delivery of a job.
#[derive(Debug, Clone)]
pub struct Task {
    /// Identity of the server's store; empty: unknown.
    pub store: Arc<str>,
    /// The id of the job, unique within the store.
    pub job: JobId,
    /// The number of this delivery.
    pub delivery: Delivery,
    /// The kind of the job.
    pub kind: Name,
    /// Deliveries that count against the maximum so far, including this one.
    pub attempt: u32,
    /// Time of the push.
    pub pushed_at: Time,
    /// The job's payload.
    pub payload: EncodedBytes,
    /// How long the run may take. The host enforces it, see [`RunContext::stopped`].
    pub timeout: Option<Span>,
    /// The W3C `traceparent` of the trace.
    pub trace: Option<Arc<str>>,
}

impl Task {
    /// A key that is the same for every delivery of this job, for callees that deduplicate
    /// requests. No other job has it: neither in another store, nor in this one after a backup was
    /// restored, which uses the same ids again.
    pub fn idempotency_key(&self) -> String {
        format!("crore-{}-{}-{}", self.store, self.job, self.pushed_at.as_millis())
    }
}

/// The output of a run, usually one item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The items in order. A handler that follows gets each item as a job of its own.
    pub items: Vec<EncodedBytes>,
}

/// Bytes and their encoding: a payload, or one item of output. Cloning shares the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedBytes {
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// The bytes.
    pub bytes: Bytes,
}

impl From<Payload> for EncodedBytes {
    fn from(Payload { encoding, bytes }: Payload) -> Self {
        Self { encoding, bytes: Bytes::from_owner(bytes) }
    }
}

impl Output {
    /// One item of bytes, encoded as text if they are valid UTF-8.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let is_text = std::str::from_utf8(&bytes).is_ok();
        let encoding = if is_text { Encoding::Text } else { Encoding::Bytes };
        Self { items: vec![EncodedBytes { encoding, bytes }] }
    }

    /// One item of JSON.
    pub fn json(value: &Value) -> Self {
        let bytes = value.to_string().into();
        Self { items: vec![EncodedBytes { encoding: Encoding::Json, bytes }] }
    }
}

/// The class of a failure; clients of the jobworkerp door see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Temporary: it may succeed next time.
    Temporary,
    /// The job cannot run: wrong settings, a missing program, a refusal.
    Fatal,
    /// The callee aborted the job.
    Aborted,
    /// The run was asked to stop, and stopped.
    Stopped,
    /// Any other failure that a retry would not fix.
    Other,
}

impl FailureClass {
    /// Its name in the detail of a failure.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Temporary => "again",
            Self::Fatal => "fatal",
            Self::Aborted => "aborted",
            Self::Stopped => "stopped",
            Self::Other => "other",
        }
    }
}

/// A failed run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct RunFailure {
    /// The error message, without secrets.
    pub error: String,
    /// The class of the failure.
    pub class: FailureClass,
    /// Whether and when to try again.
    pub retry: RetryDirective,
    /// Details for programs, such as `exit_code`, `status` and `stderr`.
    pub detail: Map<String, Value>,
}

impl RunFailure {
    fn new(class: FailureClass, again: RetryDirective, error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), class, retry: again, detail: Map::new() }
    }

    /// A temporary failure; the job's retry policy applies.
    pub fn temporary(error: impl fmt::Display) -> Self {
        Self::new(FailureClass::Temporary, RetryDirective::ByPolicy, error)
    }

    /// A temporary failure; retry after `span`.
    pub fn retry_after(span: Span, error: impl fmt::Display) -> Self {
        Self::new(FailureClass::Temporary, RetryDirective::After(span), error)
    }

    /// The job cannot run at all.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self::new(FailureClass::Fatal, RetryDirective::Never, error)
    }

    /// The callee aborted the job.
    pub fn aborted(error: impl fmt::Display) -> Self {
        Self::new(FailureClass::Aborted, RetryDirective::Never, error)
    }

    /// A failure that a retry would not fix.
    pub fn other(error: impl fmt::Display) -> Self {
        Self::new(FailureClass::Other, RetryDirective::Never, error)
    }

    /// The run was asked to stop, and stopped.
    pub fn stopped() -> Self {
        Self::new(FailureClass::Stopped, RetryDirective::ByPolicy, "stopped on request")
    }

    /// Adds a detail.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(name.to_owned(), value.into());
        self
    }
}

impl From<Invalid> for RunFailure {
    fn from(invalid: Invalid) -> Self {
        Self::fatal(invalid).with("reason", "settings")
    }
}
