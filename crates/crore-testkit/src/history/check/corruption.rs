//! **I24, corruption is detected.** A store whose files were damaged refuses to open, or reports missing
//! data, or everything that it acknowledged before the damage is intact.
//!
//! The other invariants are checked as usual. A violation that needs an event after unreported damage becomes
//! a violation of this invariant. Where the damage was reported, acknowledged data may be missing, but a
//! wrong payload or result (I4) is never excused.

use super::facts::HistoryFacts;
use super::report::{Findings, Invariant};

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for violation in &mut findings.violations {
        let shown = violation.events.last().copied().unwrap_or(0);
        let wrong = violation.invariant == Invariant(4);
        let damage = facts
            .crash_history
            .damages
            .iter()
            .find(|damage| damage.at.i < shown && (wrong || !damage.reported));
        if let Some(damage) = damage {
            let was = violation.invariant;
            violation.message =
                format!("after the damage {}, {was}: {}", damage.at.i, violation.message);
            violation.invariant = Invariant(24);
            violation.events.insert(0, damage.at.i);
        }
    }
}
