//! **I22, no silent drop.** Every push ends, unless its node stopped after it began: a history with a
//! dump has no push without an end. A push that begins while there is no room is refused, or it is
//! stored in room that was there: a job that was answered as stored and is lost is a silent drop (and
//! is reported as such, not as I1). Reports and deletions that begin and end then do not fail, where
//! the rules say that room is kept for them.

use super::facts::call::End;
use super::facts::{Call, Facts, Mark, Marked, Moment};
use super::report::Findings;
use crate::history::Op;
use crate::history::op::Want;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let stopped =
        |call: &Call<'_>| facts.memory.crashes.iter().any(|crash| call.begun.is_before(&crash.at));
    for call in &facts.calls {
        let pushes = matches!(call.op, Op::Push { .. });
        if pushes && facts.dump.is_some() && call.ended().is_none() && !stopped(call) {
            let message = format!("the push {} was never answered", call.begun.i);
            findings.add(22, None, &[call.begun.i], message);
        }
    }
    for full in facts.marks.iter().filter(|mark| mark.what == Marked::DiskFull) {
        let until = freed(facts, full);
        for call in facts.calls.iter().filter(|call| is_at(call, full)) {
            without_room(facts, call, (full.at, until), findings);
        }
    }
}

/// When there was no room at a moment: since when.
pub(super) fn full_since(facts: &Facts<'_>, at: Moment) -> Option<Moment> {
    let full = facts.marks.iter().filter(|mark| mark.what == Marked::DiskFull);
    let mut full = full.filter(|mark| mark.at.is_before(&at) && at.is_before(&freed(facts, mark)));
    full.next().map(|mark| mark.at)
}

fn freed(facts: &Facts<'_>, full: &Mark<'_>) -> Moment {
    let freed = facts.marks.iter().find(|mark| {
        mark.node == full.node && full.at.is_before(&mark.at) && mark.what == Marked::DiskFreed
    });
    freed.map_or(facts.end, |mark| mark.at)
}

/// Whether a call was to this node.
pub(super) fn is_at(call: &Call<'_>, mark: &Mark<'_>) -> bool {
    call.at.is_none_or(|at| &**at == mark.node)
}

fn without_room(
    facts: &Facts<'_>,
    call: &Call<'_>,
    (full, until): (Moment, Moment),
    findings: &mut Findings,
) {
    let Some(ended) = call.ended() else { return };
    if !full.is_before(&call.begun) || !ended.is_before(&until) {
        return;
    }
    let events = [full.i, call.begun.i, ended.i];
    let frees = matches!(call.op, Op::Report { .. } | Op::Admin { want: Want::Delete, .. });
    if facts.rules.reserve && frees && matches!(call.end, End::Fail(_)) {
        let message = format!("failed at {}, though it needs no room of its own", ended.i);
        findings.add(22, None, &events, message);
    }
}
