//! **I1, no acknowledged push is lost.** Every item that was answered with a new number (by a push
//! or a tick; follow-ups are I18) is in the dump, unless the store's class may have lost it or it may
//! rightly be gone: deleted by hand, done and not to be retained, or ended for as long as its queue
//! keeps such jobs. A dead job that is gone too soon is I14. Lost jobs are told apart by where they
//! lie among the acknowledged pushes of their caller: at the end a sync is missing, in the middle
//! something was damaged, at the beginning a compaction dropped them. Two items that were given one
//! number are a loss too. Says nothing without a dump.

use std::collections::BTreeMap;

use crore_core::{JobId, State};

use super::facts::{Ending, Facts, Fate, Job, Moment, Origin, Source};
use super::report::{Counters, Findings};
use super::space::full_since;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings, counters: &mut Counters) {
    for (id, first, second) in &facts.twice {
        let [a, b] = [first, second].map(|at| facts.sources.all[*at].begun.i);
        let message = format!("the pushes {a} and {b} were answered with one number");
        findings.add(1, *id, &[a, b], message);
    }
    let Some((_, dumped)) = facts.dump else { return };
    let mut callers: BTreeMap<&str, Vec<(Moment, JobId, bool)>> = BTreeMap::new();
    for (job, source) in facts.sourced() {
        let (Fate::New(_), Some(answered)) = (source.fate, source.answered) else { continue };
        let gone = is_lost(facts, job, source, dumped);
        if matches!(source.origin, Origin::Push | Origin::Tick(..)) {
            callers.entry(source.p).or_default().push((answered, job.id, gone));
        }
        counters.lost += usize::from(gone);
        let seen = job.stored.is_some() || !job.grants.is_empty();
        counters.ok += usize::from(seen && !gone);
    }
    for (caller, mut pushed) in callers {
        pushed.sort_by_key(|(answered, ..)| answered.i);
        let is_there = |(.., lost): &(Moment, JobId, bool)| !lost;
        let there = pushed.iter().position(is_there).zip(pushed.iter().rposition(is_there));
        for (place, (answered, id, lost)) in pushed.iter().enumerate() {
            if *lost {
                let place = where_lost(there, place);
                let message = format!(
                    "{caller} was told at {} that it is stored, and it is not in the dump: {place}",
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
pub(super) fn is_lost(facts: &Facts<'_>, job: &Job<'_>, source: &Source<'_>, at: Moment) -> bool {
    let Some(answered) = source.answered else { return false };
    job.stored.is_none()
        && facts.holds(answered, at)
        && !facts.may_be_gone(job, at)
        && !certainly_dead(facts, job)
}

/// Whether its last accepted report made it dead: then its absence is a matter of I14.
fn certainly_dead(facts: &Facts<'_>, job: &Job<'_>) -> bool {
    job.reports.iter().any(|filed| {
        filed.accepted().is_some_and(|at| {
            facts.ending(job, filed) == Ending::As(State::Dead) && !job.revived(at, facts.end)
        })
    })
}

/// Where a lost push lies among those of its caller that are there, from the first to the last.
fn where_lost(there: Option<(usize, usize)>, place: usize) -> &'static str {
    match there {
        Some((first, _)) if place < first => "prefix of its pushes",
        Some((_, last)) if place < last => "middle of its pushes",
        _ => "postfix of its pushes",
    }
}
