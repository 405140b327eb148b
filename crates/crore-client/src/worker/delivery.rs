//! A delivery to a handler, and its outcome.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crore_core::limit::PauseEnd;
use crore_core::machine::{self, RetryDirective};
use crore_core::{Encoding, JobId, Name, Payload, Span};
use crore_wire::worker::{DeliveredEvent, JobDelivery, WorkerNote};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::running::HandlerEvent;
use crate::{Error, Job, v1};

/// A running job. Clones are handles to the same run.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<DeliveryInner>);

#[derive(Debug)]
struct DeliveryInner {
    job: JobDelivery,
    store: Arc<str>,
    deadline: Option<Instant>,
    cancel: CancellationToken,
    events: mpsc::UnboundedSender<HandlerEvent>,
}

impl Delivery {
    pub(super) fn new(
        (store, job): (Arc<str>, JobDelivery),
        cancel: CancellationToken,
        events: mpsc::UnboundedSender<HandlerEvent>,
    ) -> Self {
        let deadline = job.timeout.and_then(|span| Instant::now().checked_add(span.into()));
        Self(Arc::new(DeliveryInner { job, store, deadline, cancel, events }))
    }

    /// The id of the job.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// The whole message of the delivery.
    pub fn job(&self) -> &JobDelivery {
        &self.0.job
    }

    /// Identity of the server's store; empty: unknown. Job ids are unique only within a store.
    pub fn store(&self) -> &Arc<str> {
        &self.0.store
    }

    /// The number of this attempt, starting at 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.0.job.payload
    }

    /// Deserializes the payload from JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(self.payload())?)
    }

    /// The event that the job waited for; `None` also after a time-out.
    pub fn event(&self) -> Option<&DeliveredEvent> {
        self.0.job.event.as_ref()
    }

    /// When the run times out; `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Token that is cancelled when the job is asked to stop, its lease is lost, or its run times out.
    pub fn cancel(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Reports the progress of the run.
    pub fn progress(&self, percent: u8, text: impl Into<String>) {
        self.note(Some(percent.into()), text.into());
    }

    /// Adds a line to the log of the run.
    pub fn line(&self, text: impl Into<String>) {
        self.note(None, text.into());
    }

    fn note(&self, percent: Option<u32>, text: String) {
        let held = self.0.job.held();
        // After the end of the worker there is no receiver.
        let _ = self.0.events.send(HandlerEvent::Note(WorkerNote { held, percent, text }));
    }
}

/// The outcome of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub(super) outcome: machine::Outcome,
    pub(super) on_done: Vec<v1::NewJob>,
    pub(super) costs: BTreeMap<String, u32>,
}

impl Outcome {
    const fn new(outcome: machine::Outcome) -> Self {
        Self { outcome, on_done: Vec::new(), costs: BTreeMap::new() }
    }

    /// The job is done.
    pub fn done() -> Self {
        Self::new(machine::Outcome::Done { result: None })
    }

    /// The job is done, with a result.
    pub fn result(encoding: Encoding, bytes: impl Into<Arc<[u8]>>) -> Self {
        let result = Some(Payload::new(encoding, bytes));
        Self::new(machine::Outcome::Done { result })
    }

    /// The job is done, with a result serialized as JSON.
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self::result(Encoding::Json, serde_json::to_vec(value)?))
    }

    /// The attempt failed; the job is retried according to its policy.
    pub fn failed(error: impl Display) -> Self {
        Self::failure(error, None, RetryDirective::ByPolicy)
    }

    /// The attempt failed, and the job is not retried.
    pub fn dead(error: impl Display) -> Self {
        Self::failure(error, None, RetryDirective::Never)
    }

    /// The attempt failed, with machine-readable detail and a retry directive.
    pub fn failure(error: impl Display, detail: Option<Payload>, again: RetryDirective) -> Self {
        let error = error.to_string().into();
        Self::new(machine::Outcome::Failed { error, detail, again })
    }

    /// The job runs again after this time, without using an attempt.
    pub fn snooze(span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self::new(machine::Outcome::Snooze(Span::from_millis(millis)))
    }

    /// The job was cancelled: the handler gave up, or stopped because it was asked to.
    pub fn cancelled() -> Self {
        Self::new(machine::Outcome::Cancel)
    }

    /// The job is handed back unfinished, without using an attempt.
    pub fn interrupted() -> Self {
        Self::new(machine::Outcome::Interrupted)
    }

    /// The job's key under a limit is exhausted for this time (at most 31 days): no job under it starts before. The job
    /// returns to its place without using an attempt.
    pub fn exhausted(limit: &str, span: Duration) -> Result<Self, Error> {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let limit = Name::new("limit", limit);
        let limit = limit.map_err(|invalid| Error::Malformed(invalid.to_string()))?;
        let until = PauseEnd::After(Span::from_millis(millis));
        Ok(Self::new(machine::Outcome::Exhausted { limit, until }))
    }

    /// Says what the run really cost under a limit that counts costs.
    pub fn cost(mut self, limit: &str, cost: u32) -> Self {
        self.costs.insert(limit.to_owned(), cost);
        self
    }

    /// Adds a follow-up, which is pushed in the same write if the job is done.
    pub fn then(mut self, job: Job) -> Self {
        self.on_done.push(job.0);
        self
    }

    pub(super) fn of<T: IntoOutcome, E: Display>(ran: Result<T, E>) -> Self {
        ran.map_or_else(Self::failed, IntoOutcome::into_outcome)
    }
}

/// Success value of a handler.
pub trait IntoOutcome {
    /// Converts the value to the outcome to report.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::done()
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for Vec<u8> {
    fn into_outcome(self) -> Outcome {
        Outcome::result(Encoding::Bytes, self)
    }
}

impl IntoOutcome for serde_json::Value {
    fn into_outcome(self) -> Outcome {
        Outcome::result(Encoding::Json, self.to_string().into_bytes())
    }
}
