//! **I24, corruption is detected.** A store whose files were damaged refuses to open, or reports that
//! something is missing, or everything that it answered before is as it was.
//!
//! So the other promises are checked as ever, and where one is broken that needs something from after
//! the damage to be seen, and the damage was not reported, it is this promise that was broken. Where
//! it was reported, what was acknowledged before may be missing, but a wrong payload or result (I4) is
//! never excused.

use super::facts::Facts;
use super::report::{Findings, Promise};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for violation in &mut findings.violations {
        let shown = violation.events.last().copied().unwrap_or(0);
        let wrong = violation.promise == Promise(4);
        let damage = facts
            .memory
            .damages
            .iter()
            .find(|damage| damage.at.i < shown && (wrong || !damage.reported));
        if let Some(damage) = damage {
            let was = violation.promise;
            violation.message =
                format!("after the damage {}, {was}: {}", damage.at.i, violation.message);
            violation.promise = Promise(24);
            violation.events.insert(0, damage.at.i);
        }
    }
}
