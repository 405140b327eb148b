//! The checker: takes a history and reports violated invariants.
//!
//! [`check`] indexes a history and checks I1 to I19, I22 to I24 and I26, one function per file; each file begins
//! with the exact definition. A violation is a proof: where a history leaves open what happened (a call that
//! ended in `info`, a claim that a crash may have lost, a clock jump), the checker assumes the interpretation
//! that satisfies the invariant. I25 needs a running server and is not checked here.
//!
//! Cost: one pass and maps for most invariants, sorting for I5, I8, I9 and I15. Superlinear parts depend on
//! the deliveries of one job, the definitions of one name, or the crashes of a run.

mod batch;
mod cancel;
mod corruption;
mod counts;
mod dead;
mod deadlines;
mod deliveries;
mod disk_full;
mod early;
mod facts;
mod failstop;
mod follow_ups;
mod integrity;
mod leases;
mod limits;
mod lost;
mod order;
mod phantom;
mod report;
mod reports;
mod results;
mod rules;
#[cfg(test)]
mod tests;
mod ticks;
mod unique;

use self::facts::{HistoryFacts, PushFate, PushOrigin};
use self::report::Findings;
pub use self::report::{CheckReport, Counters, Invariant, Violation};
pub use self::rules::{CheckRules, DurabilityClass};
use super::History;

/// Checks a history against the invariants.
pub fn check(history: &History, rules: &CheckRules) -> CheckReport {
    let mut findings = Findings::default();
    let facts = HistoryFacts::new(history, rules, &mut findings);
    let mut counters = count(&facts);
    lost::check(&facts, &mut findings, &mut counters);
    phantom::check(&facts, &mut findings, &mut counters);
    order::check(&facts, &mut findings, &mut counters);
    let plain: [fn(&HistoryFacts<'_>, &mut Findings); 18] = [
        integrity::check,
        leases::check,
        deliveries::check,
        reports::check,
        unique::check,
        early::check,
        ticks::check,
        results::check,
        dead::check,
        deadlines::check,
        limits::check,
        cancel::check,
        batch::check,
        follow_ups::check,
        counts::check,
        disk_full::check,
        failstop::check,
        corruption::check,
    ];
    for check in plain {
        check(&facts, &mut findings);
    }
    let mut violations = findings.violations;
    violations.sort_by_key(|violation| violation.invariant);
    CheckReport { violations, counters }
}

fn count(facts: &HistoryFacts<'_>) -> Counters {
    let pushed = facts.sources.all.iter().filter(|source| source.origin == PushOrigin::Push);
    let recovered = |fate: PushFate, seen: bool| usize::from(fate == PushFate::Unknown && seen);
    let jobs = facts.jobs.values();
    let reports = facts.jobs.values().flat_map(|job| &job.reports);
    Counters {
        pushes: pushed.count(),
        recovered: facts.sources.all.iter().map(|s| recovered(s.fate, s.id.is_some())).sum(),
        duplicated: jobs.clone().filter(|job| job.grants.len() > 1).count(),
        grants: jobs.map(|job| job.grants.len()).sum(),
        accepted: reports.filter(|report| report.accepted().is_some()).count(),
        crashes: facts.crash_history.crashes.len(),
        reused: facts.reused,
        ..Counters::default()
    }
}
