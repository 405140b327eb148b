//! **I6, deliveries are unique and attempts bounded.** Along the deliveries of a job: no number is used
//! twice, not even across crashes, and a delivery answered before another was requested has the smaller
//! number. Attempts begin at 1, never exceed the maximum, and never decrease until an operator retries the
//! job or a crash may have lost a delivery. A failure that counts costs exactly one attempt; a hand-back, a
//! snooze and a crash of the worker cost none.

use crore_core::job::{Lapse, ReportFencing};

use super::facts::{
    DeliveryGrant, EffectCertainty, HistoryFacts, JobFacts, PushSource, ReportCall,
};
use super::leases::was_held;
use super::report::Findings;
use crate::history::op::RecordedOutcome;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        check_numbers(job, findings);
    }
    for (job, source) in facts.sourced() {
        check_bounds(facts, job, source, findings);
        for pair in job.grants.windows(2) {
            let [first, second] = pair else { continue };
            check_attempt_step(facts, job, source, (first, second), findings);
        }
    }
}

fn check_numbers(job: &JobFacts<'_>, findings: &mut Findings) {
    for pair in job.grants.windows(2) {
        let [first, second] = pair else { continue };
        let events = [first.ended.i, second.begun.i, second.ended.i];
        if first.delivery() == second.delivery() {
            let message = format!("{:?} was used twice", first.delivery());
            findings.add(6, job.id, &events, message);
        } else if second.ended.is_before(&first.begun) {
            let message = format!("{:?} came before {:?}", second.delivery(), first.delivery());
            findings.add(6, job.id, &events, message);
        }
    }
}

fn check_bounds(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    findings: &mut Findings,
) {
    for grant in &job.grants {
        let attempt = grant.granted.attempt;
        let (at, max) = (grant.ended.i, source.item.retry.max_attempts);
        if attempt == 0 || max.is_some_and(|max| attempt > max) {
            let message = format!("handed out at {at} as attempt {attempt} of {max:?}");
            findings.add(6, job.id, &[at], message);
        }
    }
    if let Some(first) = job.grants.first()
        && first.granted.attempt > 1
        && !may_have_run_unseen(facts, source, first)
    {
        let message = format!("first handed out as attempt {}", first.granted.attempt);
        findings.add(6, job.id, &[first.ended.i], message);
    }
}

/// Whether an earlier delivery may have gone to a caller that never received it, and cost an attempt.
fn may_have_run_unseen(
    facts: &HistoryFacts<'_>,
    source: &PushSource<'_>,
    before: &DeliveryGrant<'_>,
) -> bool {
    // If any delivery may report, a late failure of an older one also ends an unseen newer one.
    let costs = !matches!(source.item.lapse, Lapse::Crash { .. })
        || source.item.timeout.is_some()
        || source.item.reports == ReportFencing::Any;
    let queues = [&source.item.queue, &before.granted.queue];
    let unseen = |queue| facts.unseen_fetch(queue, source.begun);
    costs && queues.into_iter().filter_map(unseen).any(|at| at.is_before(&before.ended))
}

fn check_attempt_step<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    source: &PushSource<'h>,
    (first, second): (&DeliveryGrant<'h>, &DeliveryGrant<'h>),
    findings: &mut Findings,
) {
    if job.may_be_revived(first.begun, second.ended)
        || !facts.claim_still_holds(first.ended, second.ended)
    {
        return;
    }
    let (before, after) = (first.granted.attempt, second.granted.attempt);
    let (least, most) = attempt_cost(facts, job, source, (first, second));
    let most = if may_have_run_unseen(facts, source, second) { u32::MAX } else { most };
    let wrong = after < before.saturating_add(least) || after > before.saturating_add(most);
    // A reused number is reported by `check_numbers` already.
    if wrong && first.delivery() != second.delivery() {
        let message = format!(
            "attempt {before} at {} is followed by {after} at {}: its end costs {least} to {most}",
            first.ended.i, second.ended.i
        );
        findings.add(6, job.id, &[first.ended.i, second.ended.i], message);
    }
}

/// Minimum and maximum number of attempts that the end of a delivery costs.
fn attempt_cost<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    source: &PushSource<'h>,
    (first, second): (&DeliveryGrant<'h>, &DeliveryGrant<'h>),
) -> (u32, u32) {
    let any = facts.any_delivery(job);
    let may_count = |report: &&ReportCall<'h>| {
        let own = any || report.delivery.is_none_or(|delivery| delivery == first.delivery());
        let over = report.ended.is_some_and(|ended| ended.is_before(&first.begun));
        report.effect != EffectCertainty::No
            && own
            && !over
            && report.begun.is_before(&second.ended)
    };
    let reports: Vec<_> = job.reports.iter().filter(may_count).collect();
    let silent = match source.item.lapse {
        Lapse::Crash { .. } if source.item.timeout.is_none() => (0, 0),
        Lapse::Crash { .. } | Lapse::Failure | Lapse::Again => (0, 1),
    };
    let [only] = reports.as_slice() else {
        return if reports.is_empty() { silent } else { (0, 1) };
    };
    let sure = only.accepted().is_some_and(|at| {
        let in_time = !any || (at.is_before(&second.begun) && was_held(facts, job, only));
        facts.write_still_holds(at, second.ended) && in_time
    });
    match only.outcome {
        _ if !sure || only.delivery != Some(first.delivery()) => (0, 1),
        RecordedOutcome::Failed { .. } => (1, 1),
        RecordedOutcome::Snooze(_) | RecordedOutcome::Interrupted => (0, 0),
        RecordedOutcome::Done { .. } | RecordedOutcome::Cancel => (0, 1),
    }
}
