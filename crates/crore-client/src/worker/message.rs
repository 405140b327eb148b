//! Messages of a worker, before they are encoded for its transport.

use crore_core::{Invalid, Name, machine};
use crore_wire::grpc::{follow_ups, v1};
use crore_wire::worker::{self, DeliveryRef, Hello, WorkerMessage, WorkerNote};

use super::delivery::Outcome;

/// A message of a worker.
#[derive(Debug, Default)]
pub(super) struct OutgoingMessage {
    pub(super) hello: Option<Hello>,
    pub(super) reports: Vec<DeliveryReport>,
    pub(super) notes: Vec<WorkerNote>,
    /// The new number of slots.
    pub(super) slots: Option<u32>,
    pub(super) drain: bool,
}

/// The outcome of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeliveryReport {
    pub(super) held: DeliveryRef,
    pub(super) outcome: Outcome,
}

impl From<OutgoingMessage> for WorkerMessage {
    fn from(message: OutgoingMessage) -> Self {
        let OutgoingMessage { hello, reports, notes, slots, drain } = message;
        let reports = reports.into_iter().map(Into::into).collect();
        Self { hello, reports, notes, slots, drain }
    }
}

impl From<DeliveryReport> for worker::WorkerReport {
    fn from(
        DeliveryReport { held, outcome: Outcome { outcome, on_done, costs } }: DeliveryReport,
    ) -> Self {
        let report = follow_ups("on_done", on_done).and_then(|on_done| {
            let cost = |(limit, cost): (String, u32)| Ok((Name::new("costs", &limit)?, cost));
            let costs = costs.into_iter().map(cost).collect::<Result<_, Invalid>>()?;
            Ok(machine::Report { on_done, costs, ..outcome.into() })
        });
        Self { held, report }
    }
}

impl From<OutgoingMessage> for v1::WorkerSays {
    fn from(message: OutgoingMessage) -> Self {
        let OutgoingMessage { hello, reports, notes, slots, drain } = message;
        Self {
            hello: hello.map(Into::into),
            finish: reports.into_iter().map(Into::into).collect(),
            notes: notes.into_iter().map(Into::into).collect(),
            slots,
            drain,
        }
    }
}

impl From<DeliveryReport> for v1::Report {
    fn from(
        DeliveryReport { held, outcome: Outcome { outcome, on_done, costs } }: DeliveryReport,
    ) -> Self {
        let v1::Held { id, delivery } = held.into();
        let costs = costs.into_iter().collect();
        Self { id, delivery, outcome: Some(outcome.into()), on_done, on_dead: Vec::new(), costs }
    }
}
