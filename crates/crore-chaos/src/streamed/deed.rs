//! What a worker says of a job.

use crore_core::Span;
use crore_testkit::Dice;
use crore_testkit::history::op::{Again, Outcome};
use crore_testkit::history::{Hash, Op};
use crore_wire::Format;
use crore_wire::grpc::v1::{self, report};

use crate::desk::{Desk, Held};
use crate::draft::{Draft, Sort, value};

/// A report: what is said, and what is written down.
#[derive(Debug, Clone)]
pub(super) struct Deed {
    pub(super) held: Held,
    pub(super) said: v1::Report,
    outcome: Outcome,
    pub(super) follow_ups: Vec<Draft>,
}

impl Deed {
    fn new(held: Held, said: report::Outcome, outcome: Outcome) -> Self {
        let said = v1::Report {
            id: held.id.0,
            delivery: held.delivery.0,
            outcome: Some(said),
            ..v1::Report::default()
        };
        Self { held, said, outcome, follow_ups: Vec::new() }
    }

    /// It went well.
    pub(super) fn done(held: Held) -> Self {
        let said = report::Outcome::Done(v1::Done::default());
        Self::new(held, said, Outcome::Done { result: None })
    }

    /// It was asked to stop, and has.
    pub(super) fn stopped(held: Held) -> Self {
        Self::new(held, report::Outcome::Cancelled(v1::Cancelled {}), Outcome::Cancel)
    }

    /// Anything.
    pub(super) fn any(held: Held, dice: &mut Dice, desk: &Desk) -> Self {
        let span = Span::from_millis(dice.below(40));
        match dice.below(20) {
            0..=2 => {
                let again = match dice.below(4) {
                    0 => Again::Never,
                    1 => Again::After(span),
                    _ => Again::ByPolicy,
                };
                let failed = v1::Failed {
                    error: "it went wrong".to_owned(),
                    never: again == Again::Never,
                    after_ms: matches!(again, Again::After(_)).then(|| span.as_millis()),
                    ..v1::Failed::default()
                };
                let outcome = Outcome::Failed { again, detail: None };
                Self::new(held, report::Outcome::Failed(failed), outcome)
            }
            3 => {
                let said = report::Outcome::SnoozeMs(span.as_millis());
                Self::new(held, said, Outcome::Snooze(span))
            }
            4 => {
                let said = report::Outcome::Interrupted(v1::Interrupted {});
                Self::new(held, said, Outcome::Interrupted)
            }
            5 => Self::stopped(held),
            n => {
                let text = format!("{}:{}:{}", held.id, held.delivery.0, dice.roll());
                let result = value(&text, Format::Json);
                let outcome = Outcome::Done { result: Some(Hash::of(&result)) };
                let encoding = v1::Encoding::from(result.encoding).into();
                let said = v1::Done { result: Some(result.bytes.to_vec().into()), encoding };
                let mut deed = Self::new(held, report::Outcome::Done(said), outcome);
                if n == 6 {
                    let draft = Draft::new(dice, desk.next(), Format::Msgpack, Sort::Member);
                    desk.remember(&draft);
                    deed.said.on_done.push(v1::NewJob::of(&draft.job));
                    deed.follow_ups.push(draft);
                }
                deed
            }
        }
    }

    /// As it is written down.
    pub(super) fn op(&self) -> Op {
        let (id, delivery) = (self.held.id, Some(self.held.delivery));
        let on_done = self.follow_ups.iter().map(Draft::item).collect();
        Op::Report { id, delivery, outcome: self.outcome, on_done, on_dead: Vec::new() }
    }
}
