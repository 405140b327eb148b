//! **I5, one live lease per job.** For two deliveries g1 before g2 of one job: g2 was not answered
//! before the lease of g1 could end. The lease of g1 ends no sooner than its span after the *asking*
//! for it, or for its newest renewal (it cannot have begun earlier), or its timeout after the asking;
//! unless a report of the job was sent since g1, the worker was told that its lease is stale, or was
//! seen to leave; all of that before g2 was answered. A crash excuses g2 only where it may have
//! forgotten g1 (or the renewal): if something that was asked for after the answer to g1 was durable
//! before the crash, so was g1.

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
