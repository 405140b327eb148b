//! **I9, one job per unique key while its lock is held.** For two items with one key, where the first
//! certainly became a job that certainly still holds the lock when the second was answered: the second did
//! not become a job, whether its response said so or it was only seen later; and if it was answered as a
//! duplicate, it named the first. Two concurrent pushes count too, if the lock is held in either order. A
//! duplicate never names a job with another key.
//!
//! A lock is certainly held until the first moment at which it may have ended: at the end of its window,
//! counted from the beginning of the push plus its delay; for `until-start`, at the first fetch that took the
//! job or may have; for `until-success`, at any possible end except death; for `until-end`, at any possible
//! end.

use std::collections::BTreeMap;

use crore_core::unique::UniqueHold;
use crore_core::{JobId, State};

use super::facts::{
    EffectCertainty, HistoryFacts, HistoryMoment, JobFacts, PushFate, PushSource, nanos,
};
use super::report::Findings;
use crate::history::op::{AdminAction, DueTime};

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let mut keys: BTreeMap<&str, Vec<&PushSource<'_>>> = BTreeMap::new();
    for source in &facts.sources.all {
        if let Some(unique) = &source.item.unique {
            keys.entry(&unique.key).or_default().push(source);
        }
    }
    for (key, sources) in keys {
        let mut made: Vec<(HistoryMoment, &PushSource<'_>, JobId)> = sources
            .iter()
            .filter_map(|source| Some((facts.created_by(source)?, *source, source.id?)))
            .filter(|(.., id)| facts.jobs.contains_key(id))
            .collect();
        made.sort_by_key(|(by, ..)| by.i);
        for pair in made.windows(2) {
            let [first, second] = pair else { continue };
            check_overlap(facts, key, (first, second), findings);
        }
        for source in sources {
            check_duplicate(facts, key, source, &made, findings);
        }
    }
}

type CreatedJob<'a, 'h> = (HistoryMoment, &'a PushSource<'h>, JobId);

fn check_overlap(
    facts: &HistoryFacts<'_>,
    key: &str,
    (first, second): (&CreatedJob<'_, '_>, &CreatedJob<'_, '_>),
    findings: &mut Findings,
) {
    let in_turn = first.0.is_before(&second.1.begun);
    let last = first.0.i.max(second.0.i);
    let until = HistoryMoment { i: last, ..second.0 };
    let both = holds_lock(facts, first, until)
        && (in_turn || holds_lock(facts, second, HistoryMoment { i: last, ..first.0 }));
    if both {
        let message = format!(
            "key `{key}` has this job since {} at the latest, and job {} since {}",
            first.0.i, second.2, second.0.i
        );
        findings.add(9, first.2, &[first.0.i, second.1.begun.i, second.0.i], message);
    }
}

fn check_duplicate(
    facts: &HistoryFacts<'_>,
    key: &str,
    source: &PushSource<'_>,
    made: &[CreatedJob<'_, '_>],
    findings: &mut Findings,
) {
    let (PushFate::Duplicate(id), Some(at)) = (source.fate, source.answered) else { return };
    if let Some(other) = facts.sources.of(id)
        && other.item.unique.as_ref().is_none_or(|unique| &*unique.key != key)
    {
        let message = format!("answered at {} as the holder of key `{key}`, which it is not", at.i);
        findings.add(9, id, &[source.begun.i, at.i], message);
        return;
    }
    let before = made.iter().rfind(|(by, ..)| by.is_before(&source.begun));
    if let Some(holder) = before
        && holder.2 != id
        && holds_lock(facts, holder, at)
    {
        let message = format!("key `{key}` is held by job {}, but {} named this", holder.2, at.i);
        findings.add(9, id, &[holder.0.i, source.begun.i, at.i], message);
    }
}

/// Whether a job certainly holds its lock from its creation until a later moment.
fn holds_lock(
    facts: &HistoryFacts<'_>,
    (made, source, id): &CreatedJob<'_, '_>,
    until: HistoryMoment,
) -> bool {
    let (Some(unique), Some(job)) = (&source.item.unique, facts.jobs.get(id)) else { return false };
    let delay = if let DueTime::After(span) = source.item.due { nanos(span) } else { 0 };
    let in_window = unique.window.is_none_or(|window| {
        let end = source.begun.fast.saturating_add(delay).saturating_add(nanos(window));
        until.fast.saturating_add(facts.rules.slack()) < end
    });
    let open = |ended: Option<HistoryMoment>| ended.is_none_or(|ended| until.is_before(&ended));
    in_window
        && facts.job_still_exists(source, *made, until)
        && open(lock_released_at(facts, job, source, unique.hold))
}

/// The first moment at which a lock may have ended for another reason than its window.
fn lock_released_at(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    hold: UniqueHold,
) -> Option<HistoryMoment> {
    let gone = job
        .admin_calls
        .iter()
        .filter(|w| w.effect != EffectCertainty::No && *w.action == AdminAction::Delete);
    let gone = gone.map(|admin_call| admin_call.begun).next();
    let first = |moments: [Option<HistoryMoment>; 3]| {
        moments.into_iter().flatten().min_by_key(|moment| moment.i)
    };
    match hold {
        UniqueHold::Window => None,
        UniqueHold::UntilStart => {
            let seen = job.grants.iter().map(|grant| grant.begun).min_by_key(|begun| begun.i);
            let ended = facts.may_end(job, |_| true);
            let unseen = facts.unseen_fetch(&source.item.queue, source.begun);
            let taken = first([seen, unseen, ended]);
            first([taken, gone, moved(job)])
        }
        UniqueHold::UntilSuccess => {
            let ended = facts.may_end(job, |state| state != State::Dead);
            first([ended, gone, pruned(facts, job)])
        }
        UniqueHold::UntilEnd => first([facts.may_end(job, |_| true), gone, None]),
    }
}

/// A job that was moved may have been taken from another queue by an unseen fetch.
fn moved(job: &JobFacts<'_>) -> Option<HistoryMoment> {
    let edits = job
        .admin_calls
        .iter()
        .filter(|admin_call| matches!(admin_call.action, AdminAction::Edit { .. }));
    edits.map(|admin_call| admin_call.begun).next()
}

/// A dead job holds its lock until it is removed.
fn pruned(facts: &HistoryFacts<'_>, job: &JobFacts<'_>) -> Option<HistoryMoment> {
    let dead = facts.may_end(job, |state| state == State::Dead)?;
    facts.may_be_gone(job, facts.end).then_some(dead)
}
