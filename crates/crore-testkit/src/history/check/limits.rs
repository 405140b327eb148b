//! **I15, limits hold.** For each bucket (a limit and a value of its field):
//!
//! - at the moment of every delivery, no more deliveries certainly hold jobs with this key than the
//!   largest concurrency that may have been defined then. A delivery certainly holds its job as I5
//!   has it: within its lease, not reported, not forgotten by a crash;
//! - while one rate was certainly in force, no window of time saw more deliveries than its burst and
//!   what is earned in the window, which is taken from the beginning of the first fetch to the answer
//!   of the last.
//!
//! Deliveries that a crash may have forgotten do not count, nor do jobs whose keys may have been
//! edited.

use std::collections::BTreeMap;

use crore_core::limit::LimitKey;

use super::facts::definitions::Table;
use super::facts::{Facts, Grant, Job, nanos};
use super::leases::is_live;
use super::report::Findings;
use crate::history::op::{Meaning, Rate, Want};

type Held<'a, 'h> = (&'a Job<'h>, &'a Grant<'h>);

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let mut buckets: BTreeMap<&LimitKey, Vec<Held<'_, '_>>> = BTreeMap::new();
    for (job, source) in facts.sourced() {
        let edited = |want: &Want| matches!(want, Want::Edit { limits: Some(_), .. });
        if job.meddled(source.begun, facts.end, edited) {
            continue;
        }
        for key in &source.item.limits {
            buckets.entry(key).or_default().extend(job.grants.iter().map(|grant| (job, grant)));
        }
    }
    for (key, mut grants) in buckets {
        grants.sort_by_key(|(_, grant)| grant.ended.i);
        concurrency(facts, key, &grants, findings);
        rate(facts, key, &grants, findings);
    }
}

/// The largest concurrency that may have been in force for a delivery; none: no limit may have.
fn most(facts: &Facts<'_>, key: &LimitKey, grant: &Grant<'_>) -> Option<u32> {
    let found = facts.definitions.in_force(Table::Limits, &key.limit, grant.begun, grant.ended);
    let each = found.into_iter().map(|defined| match defined?.1.to {
        Meaning::Limit { concurrency, .. } => *concurrency,
        _ => None,
    });
    each.collect::<Option<Vec<u32>>>()?.into_iter().max()
}

fn concurrency(
    facts: &Facts<'_>,
    key: &LimitKey,
    grants: &[Held<'_, '_>],
    findings: &mut Findings,
) {
    let mut held: Vec<Held<'_, '_>> = Vec::new();
    for (job, grant) in grants {
        held.retain(|(job, held)| is_live(facts, job, held, grant.ended));
        held.push((job, grant));
        let together = held.iter().filter(|(_, held)| grant.begun.is_before(&held.ended));
        let caps: Option<Vec<u32>> = together.map(|(_, held)| most(facts, key, held)).collect();
        let Some(most) = caps.and_then(|caps| caps.into_iter().max()) else { continue };
        if held.len() > most as usize {
            let at = grant.ended.i;
            let events: Vec<u64> = held.iter().map(|(_, held)| held.ended.i).collect();
            let message = format!("{} run with {key:?} at {at}, and {most} may", held.len());
            findings.add(15, job.id, &events, message);
        }
    }
}

fn rate(facts: &Facts<'_>, key: &LimitKey, grants: &[Held<'_, '_>], findings: &mut Findings) {
    let mut run: Vec<&Grant<'_>> = Vec::new();
    let mut in_force: Option<(usize, Rate)> = None;
    let known = grants.iter().filter(|(_, grant)| facts.recalls(grant.ended, facts.end));
    for (_, grant) in known {
        let now = only_rate(facts, key, grant);
        if now.map(|(n, _)| n) != in_force.map(|(n, _)| n) {
            too_fast(facts, key, &run, in_force, findings);
            run.clear();
        }
        in_force = now;
        run.push(grant);
    }
    too_fast(facts, key, &run, in_force, findings);
}

/// The rate that was certainly in force for a delivery, by its definition.
fn only_rate(facts: &Facts<'_>, key: &LimitKey, grant: &Grant<'_>) -> Option<(usize, Rate)> {
    let found = facts.definitions.in_force(Table::Limits, &key.limit, grant.begun, grant.ended);
    match found.as_slice() {
        [Some((n, defined))] => match defined.to {
            Meaning::Limit { rate, .. } => Some((*n, (*rate)?)),
            _ => None,
        },
        _ => None,
    }
}

/// With the deliveries in the order of their answers, the window of the i-th to the j-th begins no
/// sooner than any fetch from the i-th on. All windows hold exactly if for each j the smallest
/// `i·interval - start(i)` is not below `(j + 1 - burst)·interval - end(j)`.
fn too_fast(
    facts: &Facts<'_>,
    key: &LimitKey,
    run: &[&Grant<'_>],
    rate: Option<(usize, Rate)>,
    findings: &mut Findings,
) {
    let Some((_, rate)) = rate else { return };
    let mut starts: Vec<u64> = run.iter().map(|grant| grant.begun.fast).collect();
    for n in (1..starts.len()).rev() {
        starts[n - 1] = starts[n - 1].min(starts[n]);
    }
    // Numbers are multiplied by the count instead of dividing by it.
    let (every, count) = (i128::from(nanos(rate.every)), i128::from(rate.count.max(1)));
    let mut least: Option<(i128, usize)> = None;
    for (j, grant) in run.iter().enumerate() {
        let at = |n: usize| i128::try_from(n).unwrap_or(i128::MAX) * every;
        let mine = at(j) - i128::from(starts[j]) * count;
        least = Some(least.filter(|(least, _)| *least <= mine).unwrap_or((mine, j)));
        let Some((smallest, i)) = least else { continue };
        let end = i128::from(grant.ended.fast.saturating_add(facts.rules.slack())) * count;
        if at(j + 1) - i128::from(rate.burst) * every - end > smallest {
            let (first, last) = (run[i], grant);
            let (from, to) = (first.begun.i, last.ended.i);
            let message =
                format!("{} started with {key:?} from {from} to {to}: too fast", j + 1 - i);
            findings.add(15, last.granted.id, &[from, to], message);
            return;
        }
    }
}
