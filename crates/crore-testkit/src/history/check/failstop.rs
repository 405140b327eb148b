//! **I23, fail-stop.** After a write or sync of its files returned an error, a node acknowledges no write
//! requested after the error, until it has reopened its store.

use super::disk_full::is_at;
use super::facts::{HistoryFacts, NodeMarkKind};
use super::report::Findings;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for error in facts.marks.iter().filter(|mark| mark.what == NodeMarkKind::SyncError) {
        let opened = facts.marks.iter().find(|mark| {
            mark.node == error.node
                && mark.what == NodeMarkKind::Opened
                && error.at.is_before(&mark.at)
        });
        let until = opened.map_or(facts.end, |mark| mark.at);
        for call in facts.calls.iter().filter(|call| is_at(call, error)) {
            if let Some((answer, at)) = call.response()
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
