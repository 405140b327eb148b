//! **I23, fail-stop.** After a write or a sync of its files reported an error, a node answers no
//! write as durable that was asked for after the error, until it has opened its store again.

use super::facts::{Facts, Marked};
use super::report::Findings;
use super::space::is_at;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for error in facts.marks.iter().filter(|mark| mark.what == Marked::SyncError) {
        let opened = facts.marks.iter().find(|mark| {
            mark.node == error.node && mark.what == Marked::Opened && error.at.is_before(&mark.at)
        });
        let until = opened.map_or(facts.end, |mark| mark.at);
        for call in facts.calls.iter().filter(|call| is_at(call, error)) {
            if let Some((answer, at)) = call.answer()
                && answer.is_durable()
                && error.at.is_before(&call.begun)
                && at.is_before(&until)
            {
                let message =
                    format!("a write was acknowledged at {}, after the error {}", at.i, error.at.i);
                findings.add(23, None, &[error.at.i, call.begun.i, at.i], message);
            }
        }
    }
}
