//! **I5, one live lease per job.** For two deliveries g1 before g2 of one job: g2 was not answered before the
//! lease of g1 could end. The lease of g1 ends no sooner than its span after the *request* for it or for its
//! newest renewal (it cannot have begun earlier), or its timeout after the request; unless, before g2 was
//! answered, a report of the job was sent since g1, or the worker was told that its lease is stale, or it was
//! seen to leave. A crash excuses g2 only where it may have lost g1 (or the renewal): if a write requested
//! after the response to g1 was durable before the crash, so was g1.
//!
//! A renewal of g1 is not granted if g2 was answered before the renewal was requested, unless a crash may
//! have lost g2.

use super::facts::{
    DeliveryGrant, EffectCertainty, HistoryFacts, HistoryMoment, JobFacts, ReportCall,
};
use super::report::Findings;
use crate::history::op::UpkeepDecision;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for (n, newer) in job.grants.iter().enumerate() {
            for older in job.grants[..n].iter().rev() {
                let (first, second) = in_order(older, newer);
                if first.delivery() != second.delivery() && is_live(facts, job, first, second.ended)
                {
                    report_overlap(job, (first, second), findings);
                }
            }
        }
        renewals(facts, job, findings);
    }
}

/// Finds leases that were renewed after their job had been delivered again.
fn renewals(facts: &HistoryFacts<'_>, job: &JobFacts<'_>, findings: &mut Findings) {
    for renewal in job.renewals.iter().filter(|renewal| renewal.span.is_some()) {
        let is_newer = |grant: &&DeliveryGrant<'_>| {
            grant.delivery() > renewal.delivery
                && grant.ended.is_before(&renewal.begun)
                && facts.claim_still_holds(grant.ended, renewal.ended)
        };
        if let Some(newer) = job.grants.iter().find(is_newer) {
            let message = format!(
                "the lease of {:?} was renewed at {}, though the job was handed out at {} as {:?}",
                renewal.delivery,
                renewal.ended.i,
                newer.ended.i,
                newer.delivery(),
            );
            findings.add(5, job.id, &[newer.ended.i, renewal.begun.i, renewal.ended.i], message);
        }
    }
}

/// Two deliveries in the order in which they were made: by number, unless one was over before the other
/// began. Wrong numbers are reported by I6.
fn in_order<'a, 'h>(
    older: &'a DeliveryGrant<'h>,
    newer: &'a DeliveryGrant<'h>,
) -> (&'a DeliveryGrant<'h>, &'a DeliveryGrant<'h>) {
    if newer.ended.is_before(&older.begun) { (newer, older) } else { (older, newer) }
}

fn report_overlap(
    job: &JobFacts<'_>,
    (first, second): (&DeliveryGrant<'_>, &DeliveryGrant<'_>),
    findings: &mut Findings,
) {
    let message = format!(
        "handed out at {} as {:?}, while the lease of {:?} from {} was not over",
        second.ended.i,
        second.delivery(),
        first.delivery(),
        first.ended.i,
    );
    findings.add(5, job.id, &[first.begun.i, first.ended.i, second.ended.i], message);
}

/// Whether a delivery certainly still holds its job at a later moment.
pub(super) fn is_live<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    grant: &DeliveryGrant<'h>,
    at: HistoryMoment,
) -> bool {
    let over = facts.lease_end(job, grant, at).unwrap_or(0);
    at.fast.saturating_add(facts.rules.slack()) < over
        && !HistoryFacts::may_be_released(job, grant, at)
        && facts.claim_still_holds(grant.ended, at)
}

/// Whether a delivery certainly held its job when a report about it was decided. Where any delivery may report,
/// a failure of a job that nobody holds changes neither its attempts nor its due time.
pub(super) fn was_held<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    report: &ReportCall<'h>,
) -> bool {
    let until = report.ended.unwrap_or(facts.end);
    let newest = job.grants.iter().rev().find(|grant| grant.begun.is_before(&until));
    let Some(newest) = newest.filter(|grant| grant.ended.is_before(&report.begun)) else {
        return false;
    };
    let beside = job.reports.iter().any(|other| {
        let is_beside = report.begun.is_before(&other.begun) && other.begun.is_before(&until);
        other.effect != EffectCertainty::No && is_beside
    });
    let noticed = job.upkeep_calls.iter().any(|notice| {
        notice.effect != EffectCertainty::No
            && notice.what != UpkeepDecision::Lapsed
            && notice.delivery.is_none_or(|delivery| delivery == newest.delivery())
            && notice.begun.is_before(&until)
    });
    let asked_before = HistoryMoment { i: report.begun.i, ..until };
    !beside && !noticed && is_live(facts, job, newest, asked_before)
}
