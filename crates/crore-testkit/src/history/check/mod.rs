//! The checker: a history in, broken promises out.
//!
//! [`check`] sorts a history into facts and holds them to the promises I1 to I19 and I22 to I24, each
//! a plain function in a file of its own that begins with the exact definition. A finding is a proof:
//! where a history leaves open what happened (a call that ended in `info`, a claim that a crash may
//! have forgotten, a clock that jumped), the reading is taken that keeps the promise. I20, I21 and I25
//! need a server to look at, and are not judged.
//!
//! Time: one pass and maps for most; sorting for I5, I8, I9 and I15. What grows faster grows with
//! the deliveries of one job, the definitions of one name, or the crashes of a run.

mod batch;
mod cancel;
mod corruption;
mod counts;
mod dead;
mod deliveries;
mod early;
mod facts;
mod failstop;
mod follow;
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
mod space;
#[cfg(test)]
mod tests;
mod ticks;
mod unique;

use self::facts::{Facts, Fate, Origin};
use self::report::Findings;
pub use self::report::{Counters, Promise, Report, Violation};
pub use self::rules::{Durability, Rules};
use super::History;

/// Holds a history to the promises.
pub fn check(history: &History, rules: &Rules) -> Report {
    let mut findings = Findings::default();
    let facts = Facts::new(history, rules, &mut findings);
    let mut counters = count(&facts);
    lost::check(&facts, &mut findings, &mut counters);
    phantom::check(&facts, &mut findings, &mut counters);
    order::check(&facts, &mut findings, &mut counters);
    let plain: [fn(&Facts<'_>, &mut Findings); 17] = [
        integrity::check,
        leases::check,
        deliveries::check,
        reports::check,
        unique::check,
        early::check,
        ticks::check,
        results::check,
        dead::check,
        limits::check,
        cancel::check,
        batch::check,
        follow::check,
        counts::check,
        space::check,
        failstop::check,
        corruption::check,
    ];
    for check in plain {
        check(&facts, &mut findings);
    }
    let mut violations = findings.violations;
    violations.sort_by_key(|violation| violation.promise);
    Report { violations, counters }
}

fn count(facts: &Facts<'_>) -> Counters {
    let pushed = facts.sources.all.iter().filter(|source| source.origin == Origin::Push);
    let recovered = |fate: Fate, seen: bool| usize::from(fate == Fate::Unknown && seen);
    let jobs = facts.jobs.values();
    let reports = facts.jobs.values().flat_map(|job| &job.reports);
    Counters {
        pushes: pushed.count(),
        recovered: facts.sources.all.iter().map(|s| recovered(s.fate, s.id.is_some())).sum(),
        duplicated: jobs.clone().filter(|job| job.grants.len() > 1).count(),
        grants: jobs.map(|job| job.grants.len()).sum(),
        accepted: reports.filter(|filed| filed.accepted().is_some()).count(),
        crashes: facts.memory.crashes.len(),
        reused: facts.reused,
        ..Counters::default()
    }
}
