//! **I5, one live lease per job.** For two deliveries g1 before g2 of one job: g2 was not answered
//! before the lease of g1 could end. The lease of g1 ends no sooner than its span after the *asking*
//! for it, or for its newest renewal (it cannot have begun earlier), or its timeout after the asking;
//! unless a report of the job was sent since g1, the worker was told that its lease is stale, or was
//! seen to leave; all of that before g2 was answered. A crash excuses g2 only where it may have
//! forgotten g1 (or the renewal): if something that was asked for after the answer to g1 was durable
//! before the crash, so was g1.
//!
//! And a renewal of g1 is not granted if g2 was answered before the renewal was asked for, unless a
//! crash may have forgotten g2.

use super::facts::{Facts, Grant, Job, Moment};
use super::report::Findings;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for (n, newer) in job.grants.iter().enumerate() {
            for older in job.grants[..n].iter().rev() {
                let (first, second) = in_turn(older, newer);
                if first.delivery() != second.delivery() && is_live(facts, job, first, second.ended)
                {
                    both_hold(job, (first, second), findings);
                }
            }
        }
        renewals(facts, job, findings);
    }
}

/// Leases that were renewed though their jobs were others' by then.
fn renewals(facts: &Facts<'_>, job: &Job<'_>, findings: &mut Findings) {
    for renewal in job.renewals.iter().filter(|renewal| renewal.span.is_some()) {
        let is_newer = |grant: &&Grant<'_>| {
            grant.delivery() > renewal.delivery
                && grant.ended.is_before(&renewal.begun)
                && facts.recalls(grant.ended, renewal.ended)
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

/// Two deliveries in the order in which they were made: that of their numbers, unless one was over
/// before the other began; that the numbers are wrong then is a matter of I6.
fn in_turn<'a, 'h>(older: &'a Grant<'h>, newer: &'a Grant<'h>) -> (&'a Grant<'h>, &'a Grant<'h>) {
    if newer.ended.is_before(&older.begun) { (newer, older) } else { (older, newer) }
}

fn both_hold(job: &Job<'_>, (first, second): (&Grant<'_>, &Grant<'_>), findings: &mut Findings) {
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
pub(super) fn is_live<'h>(facts: &Facts<'h>, job: &Job<'h>, grant: &Grant<'h>, at: Moment) -> bool {
    let over = facts.lease_end(job, grant, at).unwrap_or(0);
    at.fast.saturating_add(facts.rules.slack()) < over
        && !Facts::may_be_released(job, grant, at)
        && facts.recalls(grant.ended, at)
}
