//! Reports of streaming workers.

use crore_core::Span;
use crore_testkit::SeededRng;
use crore_testkit::history::op::{RecordedOutcome, RecordedRetry};
use crore_testkit::history::{PayloadHash, RecordedOp};
use crore_wire::Format;
use crore_wire::grpc::v1::{self, report};

use crate::context::{ChaosContext, HeldDelivery};
use crate::draft::{JobDraft, PushForm, value};

/// A report: the message, and what the history records.
#[derive(Debug, Clone)]
pub(super) struct StreamReport {
    pub(super) held: HeldDelivery,
    pub(super) message: v1::Report,
    outcome: RecordedOutcome,
    pub(super) follow_ups: Vec<JobDraft>,
}

impl StreamReport {
    fn new(held: HeldDelivery, wire_outcome: report::Outcome, outcome: RecordedOutcome) -> Self {
        let message = v1::Report {
            id: held.id.0,
            delivery: held.delivery.0,
            outcome: Some(wire_outcome),
            ..v1::Report::default()
        };
        Self { held, message, outcome, follow_ups: Vec::new() }
    }

    /// The job succeeded.
    pub(super) fn done(held: HeldDelivery) -> Self {
        let wire_outcome = report::Outcome::Done(v1::Done::default());
        Self::new(held, wire_outcome, RecordedOutcome::Done { result: None })
    }

    /// The job was cancelled on request.
    pub(super) fn stopped(held: HeldDelivery) -> Self {
        Self::new(held, report::Outcome::Cancelled(v1::Cancelled {}), RecordedOutcome::Cancel)
    }

    /// A random report.
    pub(super) fn random(held: HeldDelivery, rng: &mut SeededRng, context: &ChaosContext) -> Self {
        let span = Span::from_millis(rng.below(40));
        match rng.below(20) {
            0..=2 => {
                let again = match rng.below(4) {
                    0 => RecordedRetry::Never,
                    1 => RecordedRetry::After(span),
                    _ => RecordedRetry::ByPolicy,
                };
                let failed = v1::Failed {
                    error: "it went wrong".to_owned(),
                    never: again == RecordedRetry::Never,
                    after_ms: matches!(again, RecordedRetry::After(_)).then(|| span.as_millis()),
                    ..v1::Failed::default()
                };
                let outcome = RecordedOutcome::Failed { again, detail: None };
                Self::new(held, report::Outcome::Failed(failed), outcome)
            }
            3 => {
                let wire_outcome = report::Outcome::SnoozeMs(span.as_millis());
                Self::new(held, wire_outcome, RecordedOutcome::Snooze(span))
            }
            4 => {
                let wire_outcome = report::Outcome::Interrupted(v1::Interrupted {});
                Self::new(held, wire_outcome, RecordedOutcome::Interrupted)
            }
            5 => Self::stopped(held),
            n => {
                let text = format!("{}:{}:{}", held.id, held.delivery.0, rng.next_u64());
                let result = value(&text, Format::Json);
                let outcome = RecordedOutcome::Done { result: Some(PayloadHash::of(&result)) };
                let encoding = v1::Encoding::from(result.encoding).into();
                let done = v1::Done { result: Some(result.bytes.to_vec().into()), encoding };
                let mut report = Self::new(held, report::Outcome::Done(done), outcome);
                if n == 6 {
                    let draft =
                        JobDraft::new(rng, context.next_seq(), Format::Msgpack, PushForm::Member);
                    context.remember(&draft);
                    report.message.on_done.push(v1::NewJob::of(&draft.job));
                    report.follow_ups.push(draft);
                }
                report
            }
        }
    }

    /// The report as the history records it.
    pub(super) fn to_op(&self) -> RecordedOp {
        let (id, delivery) = (self.held.id, Some(self.held.delivery));
        let on_done = self.follow_ups.iter().map(JobDraft::to_history_item).collect();
        RecordedOp::Report { id, delivery, outcome: self.outcome, on_done, on_dead: Vec::new() }
    }
}
