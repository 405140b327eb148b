//! **I11, a schedule fires once per tick.** Of one schedule, as long as it is not defined anew:
//!
//! - no two jobs came of one tick, counting those that were only seen later;
//! - every tick that fired is one of the timing that may have been defined;
//! - of two ticks that were accepted one after the other, the second accounts for later ones, and two
//!   concurrent ones do not account for the same;
//! - under `missed: all`, an accepted tick that follows another fires every tick between them.
//!
//! That a job of an accepted tick is not lost is I1.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::schedule::{Missed, Timing};
use crore_core::{Name, Span, Time};

use super::facts::definitions::Table;
use super::facts::{Call, Facts, Moment, Origin, Source, Took};
use super::report::Findings;
use crate::history::Op;
use crate::history::op::Meaning;

/// The most ticks between two accepted ones that are looked at one by one.
const MAX_BETWEEN: usize = 10_000;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    once(facts, findings);
    let mut accepted: BTreeMap<&Name, Vec<&Call<'_>>> = BTreeMap::new();
    let mut unknown: BTreeSet<&Name> = BTreeSet::new();
    for call in &facts.calls {
        let Op::Tick { schedule, .. } = call.op else { continue };
        match call.took() {
            Took::Yes => accepted.entry(schedule).or_default().push(call),
            Took::Perhaps => _ = unknown.insert(schedule),
            Took::No => {}
        }
        of_its_timing(facts, call, findings);
    }
    for (schedule, mut calls) in accepted {
        let sure = !unknown.contains(schedule);
        calls.sort_by_key(|call| call.ended().map(|at| at.i));
        for pair in calls.windows(2) {
            let [first, second] = pair else { continue };
            if in_turn(facts, schedule, (first, second), findings) && sure {
                all_between(facts, schedule, (first, second), findings);
            }
        }
    }
}

fn once(facts: &Facts<'_>, findings: &mut Findings) {
    let mut fired: BTreeMap<(&Name, Time), &Source<'_>> = BTreeMap::new();
    for source in &facts.sources.all {
        let (Origin::Tick(schedule, Some(tick)), Some(id)) = (source.origin, source.id) else {
            continue;
        };
        let Some(first) = fired.insert((schedule, tick), source) else { continue };
        let Some(made) = facts.made_by(first) else { continue };
        let there = facts.jobs.contains_key(&id) && facts.keeps(first, made, facts.end);
        if there && !defined_between(facts, schedule, first.begun, facts.end) {
            let events = [first.begun.i, source.begun.i];
            let message = format!("`{schedule}` fired {tick:?} twice: {events:?}");
            findings.add(11, id, &events, message);
        }
    }
}

fn of_its_timing(facts: &Facts<'_>, call: &Call<'_>, findings: &mut Findings) {
    let Op::Tick { schedule, fire, .. } = call.op else { return };
    if call.took() != Took::Yes {
        return;
    }
    let timings = timings(facts, schedule, call);
    if timings.is_empty() {
        return;
    }
    for tick in fire {
        let before = tick.before(Span::from_millis(1));
        if !timings.iter().any(|(timing, _)| timing.next_after(before) == Some(*tick)) {
            let message = format!("`{schedule}` fired {tick:?}, which is none of its ticks");
            findings.add(11, None, &[call.begun.i], message);
        }
    }
}

/// The timings that may have been in force; empty if nothing is known of the schedule.
fn timings<'h>(facts: &Facts<'h>, schedule: &Name, call: &Call<'h>) -> Vec<(&'h Timing, Missed)> {
    let until = call.ended().unwrap_or(facts.end);
    let found = facts.definitions.in_force(Table::Schedules, schedule, call.begun, until);
    let timing = |meaning: &'h Meaning| match meaning {
        Meaning::Schedule { timing, missed, .. } => Some((timing, *missed)),
        _ => None,
    };
    found.into_iter().flatten().filter_map(|(_, defined)| timing(defined.to)).collect()
}

/// Whether two accepted ticks follow each other, and each accounts for ticks of its own.
fn in_turn<'h>(
    facts: &Facts<'h>,
    schedule: &Name,
    (first, second): (&Call<'h>, &Call<'h>),
    findings: &mut Findings,
) -> bool {
    let (Op::Tick { cursor: one, .. }, Op::Tick { cursor: two, .. }) = (first.op, second.op) else {
        return false;
    };
    let (Some(at), Some(then)) = (first.ended(), second.ended()) else { return false };
    if defined_between(facts, schedule, first.begun, then) || !facts.holds(at, then) {
        return false;
    }
    let follows = at.is_before(&second.begun);
    if one == two || (follows && two < one) {
        let message = format!("`{schedule}` accounted for its ticks up to {two:?} twice");
        findings.add(11, None, &[first.begun.i, at.i, second.begun.i, then.i], message);
        return false;
    }
    follows
}

fn all_between<'h>(
    facts: &Facts<'h>,
    schedule: &Name,
    (first, second): (&Call<'h>, &Call<'h>),
    findings: &mut Findings,
) {
    let (Op::Tick { cursor: one, .. }, Op::Tick { cursor: two, fire, .. }) = (first.op, second.op)
    else {
        return;
    };
    let timings = timings(facts, schedule, second);
    let [(timing, Missed::All)] = timings.as_slice() else { return };
    let ticks = timing.preview(*one, MAX_BETWEEN);
    let between: Vec<_> = ticks.into_iter().take_while(|tick| tick <= two).collect();
    if between.len() < MAX_BETWEEN && between != *fire {
        let message = format!("`{schedule}` fired {fire:?}, and {between:?} were due");
        findings.add(11, None, &[first.begun.i, second.begun.i], message);
    }
}

fn defined_between(facts: &Facts<'_>, schedule: &Name, from: Moment, to: Moment) -> bool {
    facts.definitions.of(Table::Schedules, schedule).iter().any(|defined| {
        defined.begun.is_before(&to)
            && (defined.took == Took::Perhaps
                || defined.ended.is_none_or(|ended| from.is_before(&ended)))
    })
}
