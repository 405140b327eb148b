//! **I11, a schedule fires once per tick.** For one schedule, until it is redefined:
//!
//! - no two jobs come from one tick, including jobs that were only seen later;
//! - every tick that fired belongs to a timing that may have been defined;
//! - of two ticks accepted one after the other, the second accounts for later instants, and two concurrent
//!   ones do not account for the same instants;
//! - under `missed: all`, an accepted tick that follows another fires every tick between them.
//!
//! A lost job of an accepted tick is I1.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::schedule::{Missed, Timing};
use crore_core::{Name, Span, Time};

use super::facts::definitions::DefinitionTable;
use super::facts::{
    EffectCertainty, HistoryFacts, HistoryMoment, PushOrigin, PushSource, RecordedCall,
};
use super::report::Findings;
use crate::history::RecordedOp;
use crate::history::op::DefinitionContent;

/// Maximum number of ticks between two accepted ones that are compared one by one.
const MAX_BETWEEN: usize = 10_000;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    check_once_per_tick(facts, findings);
    let mut accepted: BTreeMap<&Name, Vec<&RecordedCall<'_>>> = BTreeMap::new();
    let mut unknown: BTreeSet<&Name> = BTreeSet::new();
    for call in &facts.calls {
        let RecordedOp::Tick { schedule, .. } = call.op else { continue };
        match call.had_effect() {
            EffectCertainty::Yes => accepted.entry(schedule).or_default().push(call),
            EffectCertainty::Perhaps => _ = unknown.insert(schedule),
            EffectCertainty::No => {}
        }
        check_timing(facts, call, findings);
    }
    for (schedule, mut calls) in accepted {
        let sure = !unknown.contains(schedule);
        calls.sort_by_key(|call| call.ended().map(|at| at.i));
        for pair in calls.windows(2) {
            let [first, second] = pair else { continue };
            if check_consecutive(facts, schedule, (first, second), findings) && sure {
                check_none_missed(facts, schedule, (first, second), findings);
            }
        }
    }
}

fn check_once_per_tick(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let mut fired: BTreeMap<(&Name, Time), &PushSource<'_>> = BTreeMap::new();
    for source in &facts.sources.all {
        let (PushOrigin::Tick(schedule, Some(tick)), Some(id)) = (source.origin, source.id) else {
            continue;
        };
        let Some(first) = fired.insert((schedule, tick), source) else { continue };
        let Some(made) = facts.created_by(first) else { continue };
        let there = facts.jobs.contains_key(&id) && facts.job_still_exists(first, made, facts.end);
        if there && !defined_between(facts, schedule, first.begun, facts.end) {
            let events = [first.begun.i, source.begun.i];
            let message = format!("`{schedule}` fired {tick:?} twice: {events:?}");
            findings.add(11, id, &events, message);
        }
    }
}

fn check_timing(facts: &HistoryFacts<'_>, call: &RecordedCall<'_>, findings: &mut Findings) {
    let RecordedOp::Tick { schedule, fire, .. } = call.op else { return };
    if call.had_effect() != EffectCertainty::Yes {
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

/// The timings that may have been in force; empty if nothing is known about the schedule.
fn timings<'h>(
    facts: &HistoryFacts<'h>,
    schedule: &Name,
    call: &RecordedCall<'h>,
) -> Vec<(&'h Timing, Missed)> {
    let until = call.ended().unwrap_or(facts.end);
    let found = facts.definitions.in_force(DefinitionTable::Schedules, schedule, call.begun, until);
    let timing = |meaning: &'h DefinitionContent| match meaning {
        DefinitionContent::Schedule { timing, missed, .. } => Some((timing, *missed)),
        _ => None,
    };
    found.into_iter().flatten().filter_map(|(_, defined)| timing(defined.to)).collect()
}

/// Whether two accepted ticks are consecutive and account for separate instants.
fn check_consecutive<'h>(
    facts: &HistoryFacts<'h>,
    schedule: &Name,
    (first, second): (&RecordedCall<'h>, &RecordedCall<'h>),
    findings: &mut Findings,
) -> bool {
    let (RecordedOp::Tick { cursor: one, .. }, RecordedOp::Tick { cursor: two, .. }) =
        (first.op, second.op)
    else {
        return false;
    };
    let (Some(at), Some(then)) = (first.ended(), second.ended()) else { return false };
    if defined_between(facts, schedule, first.begun, then) || !facts.write_still_holds(at, then) {
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

fn check_none_missed<'h>(
    facts: &HistoryFacts<'h>,
    schedule: &Name,
    (first, second): (&RecordedCall<'h>, &RecordedCall<'h>),
    findings: &mut Findings,
) {
    let (RecordedOp::Tick { cursor: one, .. }, RecordedOp::Tick { cursor: two, fire, .. }) =
        (first.op, second.op)
    else {
        return;
    };
    let timings = timings(facts, schedule, second);
    let [(timing, Missed::All)] = timings.as_slice() else { return };
    let ticks = timing.preview(*one, MAX_BETWEEN);
    let between: Vec<_> = ticks.into_iter().take_while(|tick| tick <= two).collect();
    if between.len() < MAX_BETWEEN && between != *fire {
        let message = format!("`{schedule}` fired {fire:?}, but {between:?} were due");
        findings.add(11, None, &[first.begun.i, second.begun.i], message);
    }
}

fn defined_between(
    facts: &HistoryFacts<'_>,
    schedule: &Name,
    from: HistoryMoment,
    to: HistoryMoment,
) -> bool {
    facts.definitions.of(DefinitionTable::Schedules, schedule).iter().any(|defined| {
        defined.begun.is_before(&to)
            && (defined.took == EffectCertainty::Perhaps
                || defined.ended.is_none_or(|ended| from.is_before(&ended)))
    })
}
