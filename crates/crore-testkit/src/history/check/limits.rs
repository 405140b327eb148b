//! **I15, limits hold.** For each bucket (a limit and a value of its field):
//!
//! - at every delivery, the number of deliveries that certainly hold jobs with this key does not exceed the
//!   largest concurrency that may have been defined then. A delivery certainly holds its job as in I5: within
//!   its lease, not reported, not lost by a crash. A delivery whose lease had ended before its response arrived, by the
//!   times of the store, does not count;
//! - while one rate was certainly in force, no time window contains more deliveries than its burst plus the
//!   number earned in the window, measured from the beginning of the first fetch to the response of the last. If the
//!   rate counts costs, the deliveries of a window cost no more than that. Reports in a history give nothing back.
//!
//! Deliveries that a crash may have lost, and jobs whose keys may have been edited, do not count.

use std::collections::BTreeMap;

use crore_core::Time;
use crore_core::limit::LimitKey;

use super::facts::definitions::DefinitionTable;
use super::facts::{DeliveryGrant, HistoryFacts, JobFacts, nanos};
use super::leases::is_live;
use super::report::Findings;
use crate::history::op::{AdminAction, DefinitionContent, RecordedRate};

type HeldGrant<'a, 'h> = (&'a JobFacts<'h>, &'a DeliveryGrant<'h>);

/// A delivery and what its start costs.
type CostedGrant<'a, 'h> = (&'a DeliveryGrant<'h>, u32);

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let mut buckets: BTreeMap<&LimitKey, Vec<HeldGrant<'_, '_>>> = BTreeMap::new();
    for (job, source) in facts.sourced() {
        let edited = |want: &AdminAction| matches!(want, AdminAction::Edit { limits: Some(_), .. });
        if job.admin_may_apply(source.begun, facts.end, edited) {
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

/// The largest concurrency that may have been in force for a delivery. `None`: possibly unlimited.
fn max_concurrency(
    facts: &HistoryFacts<'_>,
    key: &LimitKey,
    grant: &DeliveryGrant<'_>,
) -> Option<u32> {
    let found =
        facts.definitions.in_force(DefinitionTable::Limits, &key.limit, grant.begun, grant.ended);
    let each = found.into_iter().map(|defined| match defined?.1.to {
        DefinitionContent::Limit { concurrency, .. } => *concurrency,
        _ => None,
    });
    each.collect::<Option<Vec<u32>>>()?.into_iter().max()
}

fn concurrency(
    facts: &HistoryFacts<'_>,
    key: &LimitKey,
    grants: &[HeldGrant<'_, '_>],
    findings: &mut Findings,
) {
    let mut held: Vec<HeldGrant<'_, '_>> = Vec::new();
    for (job, grant) in grants {
        held.retain(|(job, held)| is_live(facts, job, held, grant.ended));
        if !is_held_together(facts, job, grant, &held) {
            continue;
        }
        held.push((job, grant));
        let together = held.iter().filter(|(_, held)| grant.begun.is_before(&held.ended));
        let caps: Option<Vec<u32>> =
            together.map(|(_, held)| max_concurrency(facts, key, held)).collect();
        let Some(max) = caps.and_then(|caps| caps.into_iter().max()) else { continue };
        if held.len() > max as usize {
            let at = grant.ended.i;
            let events: Vec<u64> = held.iter().map(|(_, held)| held.ended.i).collect();
            let message = format!("{} run with {key:?} at {at}, but {max} may", held.len());
            findings.add(15, job.id, &events, message);
        }
    }
}

/// Whether a delivery certainly held its job when the last of `others` was made. Its response may arrive so late that
/// its lease had ended by then; the store's times in the responses, which never decrease, decide.
fn is_held_together(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    grant: &DeliveryGrant<'_>,
    others: &[HeldGrant<'_, '_>],
) -> bool {
    if HistoryFacts::may_be_released(job, grant, grant.ended) {
        return false;
    }
    let Some(lease) = grant.granted.lease else { return true };
    let timeout = facts.sources.of(job.id).and_then(|source| source.item.timeout);
    let held_for = timeout.map_or(lease, |timeout| lease.min(timeout));
    let times: Option<Vec<Time>> = others.iter().map(|(_, other)| other.now).collect();
    match grant.now.zip(times) {
        Some((now, times)) => times.into_iter().all(|time| time < now.after(held_for)),
        None => is_live(facts, job, grant, grant.ended),
    }
}

fn rate(
    facts: &HistoryFacts<'_>,
    key: &LimitKey,
    grants: &[HeldGrant<'_, '_>],
    findings: &mut Findings,
) {
    let mut run: Vec<CostedGrant<'_, '_>> = Vec::new();
    let mut in_force: Option<(usize, RecordedRate)> = None;
    let known = grants.iter().filter(|(_, grant)| facts.claim_still_holds(grant.ended, facts.end));
    for (job, grant) in known {
        let now = only_rate(facts, key, grant);
        if now.map(|(n, _)| n) != in_force.map(|(n, _)| n) {
            check_rate_windows(facts, key, &run, in_force, findings);
            run.clear();
        }
        in_force = now;
        run.push((grant, cost_of(facts, job, key)));
    }
    check_rate_windows(facts, key, &run, in_force, findings);
}

/// The cost of a start of a job under a key.
fn cost_of(facts: &HistoryFacts<'_>, job: &JobFacts<'_>, key: &LimitKey) -> u32 {
    let Some(source) = facts.sources.of(job.id) else { return 1 };
    let nth = source.item.limits.iter().position(|other| other == key);
    let costs = source.item.costs.as_deref().unwrap_or_default();
    nth.and_then(|nth| costs.get(nth)).copied().unwrap_or(1)
}

/// The rate that was certainly in force for a delivery, with the index of its definition.
fn only_rate(
    facts: &HistoryFacts<'_>,
    key: &LimitKey,
    grant: &DeliveryGrant<'_>,
) -> Option<(usize, RecordedRate)> {
    let found =
        facts.definitions.in_force(DefinitionTable::Limits, &key.limit, grant.begun, grant.ended);
    match found.as_slice() {
        [Some((n, defined))] => match defined.to {
            DefinitionContent::Limit { rate, .. } => Some((*n, (*rate)?)),
            _ => None,
        },
        _ => None,
    }
}

/// Checks every time window of deliveries under one rate. With the deliveries ordered by response, the window from
/// the i-th to the j-th starts with the earliest fetch from the i-th on. Let `sum(i)` be the cost of all before the i-th; without
/// costs it is i. No window exceeds the rate if and only if for each j the smallest `sum(i)·interval - start(i)` with i ≤ j is
/// not below `(sum(j + 1) - burst)·interval - end(j)`.
fn check_rate_windows(
    facts: &HistoryFacts<'_>,
    key: &LimitKey,
    run: &[CostedGrant<'_, '_>],
    rate: Option<(usize, RecordedRate)>,
    findings: &mut Findings,
) {
    let Some((_, rate)) = rate else { return };
    let mut starts: Vec<u64> = run.iter().map(|(grant, _)| grant.begun.fast).collect();
    for n in (1..starts.len()).rev() {
        starts[n - 1] = starts[n - 1].min(starts[n]);
    }
    // Both sides are multiplied by the count, which avoids division.
    let (every, count) = (i128::from(nanos(rate.every)), i128::from(rate.count.max(1)));
    let mut least: Option<(i128, usize)> = None;
    let mut sum = 0;
    for (j, (grant, cost)) in run.iter().enumerate() {
        let cost = if rate.counts_costs { (*cost).min(rate.burst.max(1)) } else { 1 };
        let mine = sum * every - i128::from(starts[j]) * count;
        sum += i128::from(cost);
        least = Some(least.filter(|(least, _)| *least <= mine).unwrap_or((mine, j)));
        let Some((smallest, i)) = least else { continue };
        let end = i128::from(grant.ended.fast.saturating_add(facts.rules.slack())) * count;
        if sum * every - i128::from(rate.burst) * every - end > smallest {
            let (first, last) = (run[i].0, grant);
            let (from, to) = (first.begun.i, last.ended.i);
            let message =
                format!("{} started with {key:?} from {from} to {to}: too fast", j + 1 - i);
            findings.add(15, last.granted.id, &[from, to], message);
            return;
        }
    }
}
