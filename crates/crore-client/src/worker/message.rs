//! Messages of a worker on one connection, before they are translated for its transport.

use crore_core::machine;
use crore_wire::grpc::{follow_ups, v1};
use crore_wire::worker::{self, Held, Hello, Note, WorkerMessage};

use super::delivery::Outcome;

/// A message of a worker.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) hello: Option<Hello>,
    pub(super) reports: Vec<Report>,
    pub(super) notes: Vec<Note>,
    pub(super) drain: bool,
}

/// How a delivery went.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    pub(super) held: Held,
    pub(super) outcome: Outcome,
}

impl From<Message> for WorkerMessage {
    fn from(message: Message) -> Self {
        let Message { hello, reports, notes, drain } = message;
        let reports = reports.into_iter().map(Into::into).collect();
        Self { hello, reports, notes, slots: None, drain }
    }
}

impl From<Report> for worker::Report {
    fn from(Report { held, outcome: Outcome { said, on_done } }: Report) -> Self {
        let report = follow_ups("on_done", on_done).map(|on_done| machine::Report {
            outcome: said,
            on_done,
            on_dead: Vec::new(),
        });
        Self { held, report }
    }
}

impl From<Message> for v1::WorkerSays {
    fn from(message: Message) -> Self {
        let Message { hello, reports, notes, drain } = message;
        Self {
            hello: hello.map(Into::into),
            finish: reports.into_iter().map(Into::into).collect(),
            notes: notes.into_iter().map(Into::into).collect(),
            slots: None,
            drain,
        }
    }
}

impl From<Report> for v1::Report {
    fn from(Report { held, outcome: Outcome { said, on_done } }: Report) -> Self {
        let v1::Held { id, delivery } = held.into();
        Self { id, delivery, outcome: Some(said.into()), on_done, on_dead: Vec::new() }
    }
}
