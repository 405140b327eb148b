//! **I22, no silent drop.** Every push ends, unless its node stopped after it began: a history with a dump
//! has no push without an end. A push that begins while the disk is full is refused, or stored in
//! preallocated space: a job that was acknowledged and is lost is a silent drop (reported as I22, not as I1).
//! Reports and deletions that begin and end while the disk is full succeed, where the rules say that space is
//! reserved for them.

use super::facts::call::CallEnd;
use super::facts::{HistoryFacts, HistoryMoment, NodeMark, NodeMarkKind, RecordedCall};
use super::report::Findings;
use crate::history::RecordedOp;
use crate::history::op::AdminAction;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let stopped = |call: &RecordedCall<'_>| {
        facts.crash_history.crashes.iter().any(|crash| call.begun.is_before(&crash.at))
    };
    for call in &facts.calls {
        let pushes = matches!(call.op, RecordedOp::Push { .. });
        if pushes && facts.dump.is_some() && call.ended().is_none() && !stopped(call) {
            let message = format!("the push {} was never answered", call.begun.i);
            findings.add(22, None, &[call.begun.i], message);
        }
    }
    for full in facts.marks.iter().filter(|mark| mark.what == NodeMarkKind::DiskFull) {
        let until = freed_at(facts, full);
        for call in facts.calls.iter().filter(|call| is_at(call, full)) {
            check_disk_full_call(facts, call, (full.at, until), findings);
        }
    }
}

/// Since when the disk was full at a moment, if it was.
pub(super) fn full_since(facts: &HistoryFacts<'_>, at: HistoryMoment) -> Option<HistoryMoment> {
    let full = facts.marks.iter().filter(|mark| mark.what == NodeMarkKind::DiskFull);
    let mut full =
        full.filter(|mark| mark.at.is_before(&at) && at.is_before(&freed_at(facts, mark)));
    full.next().map(|mark| mark.at)
}

fn freed_at(facts: &HistoryFacts<'_>, full: &NodeMark<'_>) -> HistoryMoment {
    let freed = facts.marks.iter().find(|mark| {
        mark.node == full.node
            && full.at.is_before(&mark.at)
            && mark.what == NodeMarkKind::DiskFreed
    });
    freed.map_or(facts.end, |mark| mark.at)
}

/// Whether a call was to the node of this mark.
pub(super) fn is_at(call: &RecordedCall<'_>, mark: &NodeMark<'_>) -> bool {
    call.at.is_none_or(|at| &**at == mark.node)
}

fn check_disk_full_call(
    facts: &HistoryFacts<'_>,
    call: &RecordedCall<'_>,
    (full, until): (HistoryMoment, HistoryMoment),
    findings: &mut Findings,
) {
    let Some(ended) = call.ended() else { return };
    if !full.is_before(&call.begun) || !ended.is_before(&until) {
        return;
    }
    let events = [full.i, call.begun.i, ended.i];
    let frees = matches!(
        call.op,
        RecordedOp::Report { .. } | RecordedOp::Admin { want: AdminAction::Delete, .. }
    );
    if facts.rules.reserve && frees && matches!(call.end, CallEnd::Fail(_)) {
        let message = format!("failed at {}, though it needs no room of its own", ended.i);
        findings.add(22, None, &events, message);
    }
}
