//! A job that is being run, and how it went.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crore_core::machine::{self, Again};
use crore_core::{Encoding, JobId, Payload, Span};
use crore_wire::worker::{Delivered, Note};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::running::Event;
use crate::{Error, Job, v1};

/// A job that is being run. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    job: Delivered,
    deadline: Option<Instant>,
    cancel: CancellationToken,
    events: mpsc::UnboundedSender<Event>,
}

impl Delivery {
    pub(super) fn new(
        job: Delivered,
        cancel: CancellationToken,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let deadline = job.timeout.and_then(|span| Instant::now().checked_add(span.into()));
        Self(Arc::new(Inner { job, deadline, cancel, events }))
    }

    /// Its id.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Everything that came with it.
    pub fn job(&self) -> &Delivered {
        &self.0.job
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// What it is to do it with.
    pub fn payload(&self) -> &[u8] {
        &self.0.job.payload
    }

    /// The same, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(self.payload())?)
    }

    /// When this run has to be over.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Cancelled when the job is asked to stop, or is another's, or its time is over.
    pub fn cancel(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Says how far it is.
    pub fn progress(&self, percent: u8, text: impl Into<String>) {
        self.note(Some(percent.into()), text.into());
    }

    /// Adds a line to its log.
    pub fn line(&self, text: impl Into<String>) {
        self.note(None, text.into());
    }

    fn note(&self, percent: Option<u32>, text: String) {
        let held = self.0.job.held();
        // Nobody is there to read it when the worker is gone.
        let _ = self.0.events.send(Event::Note(Note { held, percent, text }));
    }
}

/// How a delivery went.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub(super) said: machine::Outcome,
    pub(super) on_done: Vec<v1::NewJob>,
}

impl Outcome {
    const fn new(said: machine::Outcome) -> Self {
        Self { said, on_done: Vec::new() }
    }

    /// Well.
    pub fn done() -> Self {
        Self::new(machine::Outcome::Done { result: None })
    }

    /// Well, with a result.
    pub fn result(encoding: Encoding, bytes: impl Into<Arc<[u8]>>) -> Self {
        let result = Some(Payload::new(encoding, bytes));
        Self::new(machine::Outcome::Done { result })
    }

    /// Well, with a result in JSON.
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self::result(Encoding::Json, serde_json::to_vec(value)?))
    }

    /// Badly: it is tried again as its policy says.
    pub fn failed(error: impl Display) -> Self {
        Self::failure(error, None, Again::ByPolicy)
    }

    /// Badly, and it is not tried again.
    pub fn dead(error: impl Display) -> Self {
        Self::failure(error, None, Again::Never)
    }

    /// Badly, with details for programs, and whether and when it is tried again.
    pub fn failure(error: impl Display, detail: Option<Payload>, again: Again) -> Self {
        let error = error.to_string().into();
        Self::new(machine::Outcome::Failed { error, detail, again })
    }

    /// Not yet: it is to run again after this, at no cost in attempts.
    pub fn snooze(span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self::new(machine::Outcome::Snooze(Span::from_millis(millis)))
    }

    /// It was given up, or stopped because it was asked to.
    pub fn cancelled() -> Self {
        Self::new(machine::Outcome::Cancel)
    }

    /// It is handed back unfinished, at no cost in attempts.
    pub fn interrupted() -> Self {
        Self::new(machine::Outcome::Interrupted)
    }

    /// Pushes a job in the same write, if this makes the job done.
    pub fn then(mut self, job: Job) -> Self {
        self.on_done.push(job.0);
        self
    }

    pub(super) fn of<T: Reply, E: Display>(ran: Result<T, E>) -> Self {
        ran.map_or_else(Self::failed, Reply::reply)
    }
}

/// What a handler gives, and what it means.
pub trait Reply {
    /// How the delivery went.
    fn reply(self) -> Outcome;
}

impl Reply for () {
    fn reply(self) -> Outcome {
        Outcome::done()
    }
}

impl Reply for Outcome {
    fn reply(self) -> Outcome {
        self
    }
}

impl Reply for Vec<u8> {
    fn reply(self) -> Outcome {
        Outcome::result(Encoding::Bytes, self)
    }
}

impl Reply for serde_json::Value {
    fn reply(self) -> Outcome {
        Outcome::result(Encoding::Json, self.to_string().into_bytes())
    }
}
