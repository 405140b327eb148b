//! **I1, no acknowledged push is lost.** Every item acknowledged with a new id (by a push or a tick;
//! follow-ups are I18) is in the dump, unless the store's durability class may have lost it or it may
//! legitimately be gone: deleted by an operator, done and not retained, or ended for longer than its queue
//! keeps such jobs. A dead job that is gone too soon is I14. Two items acknowledged with the same id are a
//! loss too.
//!
//! A finding says where the lost job lies among the acknowledged pushes of its caller: a lost postfix
//! suggests a missing sync, a gap in the middle suggests damage, a lost prefix suggests a compaction that
//! dropped live records. Needs a dump.

use std::collections::BTreeMap;

use crore_core::{JobId, State};

use super::disk_full::full_since;
use super::facts::{
    HistoryFacts, HistoryMoment, JobFacts, PushFate, PushOrigin, PushSource, ReportEffect,
};
use super::report::{Counters, Findings};

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings, counters: &mut Counters) {
    for (id, first, second) in &facts.duplicate_ids {
        let [a, b] = [first, second].map(|at| facts.sources.all[*at].begun.i);
        let message = format!("the pushes {a} and {b} were answered with the same id");
        findings.add(1, *id, &[a, b], message);
    }
    let Some((_, dumped)) = facts.dump else { return };
    let mut callers: BTreeMap<&str, Vec<(HistoryMoment, JobId, bool)>> = BTreeMap::new();
    for (job, source) in facts.sourced() {
        let (PushFate::New(_), Some(answered)) = (source.fate, source.answered) else { continue };
        let gone = is_lost(facts, job, source, dumped);
        if matches!(source.origin, PushOrigin::Push | PushOrigin::Tick(..)) {
            callers.entry(source.p).or_default().push((answered, job.id, gone));
        }
        counters.lost += usize::from(gone);
        let seen = job.stored.is_some() || !job.grants.is_empty();
        counters.ok += usize::from(seen && !gone);
    }
    for (caller, mut pushed) in callers {
        pushed.sort_by_key(|(answered, ..)| answered.i);
        let is_there = |(.., lost): &(HistoryMoment, JobId, bool)| !lost;
        let there = pushed.iter().position(is_there).zip(pushed.iter().rposition(is_there));
        for (index, (answered, id, lost)) in pushed.iter().enumerate() {
            if *lost {
                let position = loss_position(there, index);
                let message = format!(
                    "acknowledged to {caller} at {}, but not in the dump: {position}",
                    answered.i
                );
                let pushed = facts.sources.of(*id).map_or(*answered, |source| source.begun);
                let promise = if full_since(facts, pushed).is_some() { 22 } else { 1 };
                findings.add(promise, *id, &[answered.i, dumped.i], message);
            }
        }
    }
}

/// Whether an acknowledged job is missing from the dump and should not be.
pub(super) fn is_lost(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    at: HistoryMoment,
) -> bool {
    let Some(answered) = source.answered else { return false };
    job.stored.is_none()
        && facts.write_still_holds(answered, at)
        && !facts.may_be_gone(job, at)
        && !certainly_dead(facts, job)
}

/// Whether its last accepted report made it dead: its absence is then a matter of I14.
fn certainly_dead(facts: &HistoryFacts<'_>, job: &JobFacts<'_>) -> bool {
    job.reports.iter().any(|report| {
        report.accepted().is_some_and(|at| {
            facts.ending(job, report) == ReportEffect::EndedAs(State::Dead)
                && !job.may_be_revived(at, facts.end)
        })
    })
}

/// Position of a lost push relative to those of its caller that exist, from the first to the last.
fn loss_position(there: Option<(usize, usize)>, index: usize) -> &'static str {
    match there {
        Some((first, _)) if index < first => "prefix of its pushes",
        Some((_, last)) if index < last => "middle of its pushes",
        _ => "postfix of its pushes",
    }
}
