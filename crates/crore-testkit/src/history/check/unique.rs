//! **I9, one job per unique key while its lock is held.** For two items with one key of which the
//! first certainly became a job that certainly still holds the lock when the second was answered:
//! the second did not become a job, whether its caller was told so or it was only seen later; and if
//! it was answered as a duplicate, it named the first. Two concurrent pushes count as well, where the
//! lock is held in either order. A duplicate never names a job with another key.
//!
//! A lock is certainly held until the first moment at which something may have ended it: its window,
//! counted from the beginning of the push and its delay; for `until-start` the first fetch that took
//! it or may have; for `until-success` whatever may have ended it but death; for `until-end` also
//! what may have killed it.

use std::collections::BTreeMap;

use crore_core::unique::Hold;
use crore_core::{JobId, State};

use super::facts::{Facts, Fate, Job, Moment, Source, Took, nanos};
use super::report::Findings;
use crate::history::op::{Want, When};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let mut keys: BTreeMap<&str, Vec<&Source<'_>>> = BTreeMap::new();
    for source in &facts.sources.all {
        if let Some(unique) = &source.item.unique {
            keys.entry(&unique.key).or_default().push(source);
        }
    }
    for (key, sources) in keys {
        let mut made: Vec<(Moment, &Source<'_>, JobId)> = sources
            .iter()
            .filter_map(|source| Some((facts.made_by(source)?, *source, source.id?)))
            .filter(|(.., id)| facts.jobs.contains_key(id))
            .collect();
        made.sort_by_key(|(by, ..)| by.i);
        for pair in made.windows(2) {
            let [first, second] = pair else { continue };
            at_once(facts, key, (first, second), findings);
        }
        for source in sources {
            duplicate(facts, key, source, &made, findings);
        }
    }
}

type Made<'a, 'h> = (Moment, &'a Source<'h>, JobId);

fn at_once(
    facts: &Facts<'_>,
    key: &str,
    (first, second): (&Made<'_, '_>, &Made<'_, '_>),
    findings: &mut Findings,
) {
    let in_turn = first.0.is_before(&second.1.begun);
    let last = first.0.i.max(second.0.i);
    let until = Moment { i: last, ..second.0 };
    let both = holds(facts, first, until)
        && (in_turn || holds(facts, second, Moment { i: last, ..first.0 }));
    if both {
        let message = format!(
            "key `{key}` has this job since {} at the latest, and job {} since {}",
            first.0.i, second.2, second.0.i
        );
        findings.add(9, first.2, &[first.0.i, second.1.begun.i, second.0.i], message);
    }
}

fn duplicate(
    facts: &Facts<'_>,
    key: &str,
    source: &Source<'_>,
    made: &[Made<'_, '_>],
    findings: &mut Findings,
) {
    let (Fate::Duplicate(id), Some(at)) = (source.fate, source.answered) else { return };
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
        && holds(facts, holder, at)
    {
        let message = format!("key `{key}` is held by job {}, but {} named this", holder.2, at.i);
        findings.add(9, id, &[holder.0.i, source.begun.i, at.i], message);
    }
}

/// Whether a job certainly holds its lock from when it was made until a later moment.
fn holds(facts: &Facts<'_>, (made, source, id): &Made<'_, '_>, until: Moment) -> bool {
    let (Some(unique), Some(job)) = (&source.item.unique, facts.jobs.get(id)) else { return false };
    let delay = if let When::After(span) = source.item.due { nanos(span) } else { 0 };
    let in_window = unique.window.is_none_or(|window| {
        let end = source.begun.fast.saturating_add(delay).saturating_add(nanos(window));
        until.fast.saturating_add(facts.rules.slack()) < end
    });
    let open = |ended: Option<Moment>| ended.is_none_or(|ended| until.is_before(&ended));
    in_window
        && facts.keeps(source, *made, until)
        && open(released(facts, job, source, unique.hold))
}

/// The first moment at which something else than the window may have ended a lock.
fn released(facts: &Facts<'_>, job: &Job<'_>, source: &Source<'_>, hold: Hold) -> Option<Moment> {
    let gone = job.wants.iter().filter(|w| w.took != Took::No && *w.want == Want::Delete);
    let gone = gone.map(|wanted| wanted.begun).next();
    let first =
        |moments: [Option<Moment>; 3]| moments.into_iter().flatten().min_by_key(|moment| moment.i);
    match hold {
        Hold::Window => None,
        Hold::UntilStart => {
            let seen = job.grants.iter().map(|grant| grant.begun).min_by_key(|begun| begun.i);
            let ended = facts.may_end(job, |_| true);
            let unseen = facts.unseen_fetch(&source.item.queue, source.begun);
            let taken = first([seen, unseen, ended]);
            first([taken, gone, moved(job)])
        }
        Hold::UntilSuccess => {
            let ended = facts.may_end(job, |state| state != State::Dead);
            first([ended, gone, pruned(facts, job)])
        }
        Hold::UntilEnd => first([facts.may_end(job, |_| true), gone, None]),
    }
}

/// A job that was moved may have been taken from another queue, unseen.
fn moved(job: &Job<'_>) -> Option<Moment> {
    let edits = job.wants.iter().filter(|wanted| matches!(wanted.want, Want::Edit { .. }));
    edits.map(|wanted| wanted.begun).next()
}

/// A dead job keeps its lock until it is removed.
fn pruned(facts: &Facts<'_>, job: &Job<'_>) -> Option<Moment> {
    let dead = facts.may_end(job, |state| state == State::Dead)?;
    facts.may_be_gone(job, facts.end).then_some(dead)
}
