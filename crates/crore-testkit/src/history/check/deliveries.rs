//! **I6, deliveries are unique and attempts bounded.** Along the deliveries of a job: no number
//! twice, not even across crashes, and one that was wholly answered before another was asked for has
//! the smaller number. Attempts begin at 1, never pass the maximum, and never decrease until the job
//! is revived by hand or a crash may have forgotten a delivery. A failure that counts costs exactly one; a hand-back, a snooze and a crash of
//! the worker cost none.

use crore_core::job::{Lapse, Reports};

use super::facts::{Facts, Filed, Grant, Job, Source, Took};
use super::report::Findings;
use crate::history::op::Outcome;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        numbers(job, findings);
    }
    for (job, source) in facts.sourced() {
        bounds(facts, job, source, findings);
        for pair in job.grants.windows(2) {
            let [first, second] = pair else { continue };
            step(facts, job, source, (first, second), findings);
        }
    }
}

fn numbers(job: &Job<'_>, findings: &mut Findings) {
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

fn bounds(facts: &Facts<'_>, job: &Job<'_>, source: &Source<'_>, findings: &mut Findings) {
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

/// Whether a delivery before this one may have been answered to nobody, and have cost an attempt.
fn may_have_run_unseen(facts: &Facts<'_>, source: &Source<'_>, before: &Grant<'_>) -> bool {
    // Where any delivery may report, an older one that fails late also ends one that nobody heard of.
    let costs = !matches!(source.item.lapse, Lapse::Crash { .. })
        || source.item.timeout.is_some()
        || source.item.reports == Reports::Any;
    let queues = [&source.item.queue, &before.granted.queue];
    let unseen = |queue| facts.unseen_fetch(queue, source.begun);
    costs && queues.into_iter().filter_map(unseen).any(|at| at.is_before(&before.ended))
}

fn step<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    source: &Source<'h>,
    (first, second): (&Grant<'h>, &Grant<'h>),
    findings: &mut Findings,
) {
    if job.revived(first.begun, second.ended) || !facts.recalls(first.ended, second.ended) {
        return;
    }
    let (before, after) = (first.granted.attempt, second.granted.attempt);
    let (least, most) = costs(facts, job, source, (first, second));
    let most = if may_have_run_unseen(facts, source, second) { u32::MAX } else { most };
    let wrong = after < before.saturating_add(least) || after > before.saturating_add(most);
    // The same number twice is one finding, not two.
    if wrong && first.delivery() != second.delivery() {
        let message = format!(
            "attempt {before} at {} is followed by {after} at {}: its end costs {least} to {most}",
            first.ended.i, second.ended.i
        );
        findings.add(6, job.id, &[first.ended.i, second.ended.i], message);
    }
}

/// How many attempts the end of a delivery costs, at least and at most.
fn costs<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    source: &Source<'h>,
    (first, second): (&Grant<'h>, &Grant<'h>),
) -> (u32, u32) {
    let any = facts.any_delivery(job);
    let may_count = |filed: &&Filed<'h>| {
        let own = any || filed.delivery.is_none_or(|delivery| delivery == first.delivery());
        let over = filed.ended.is_some_and(|ended| ended.is_before(&first.begun));
        filed.took != Took::No && own && !over && filed.begun.is_before(&second.ended)
    };
    let filed: Vec<_> = job.reports.iter().filter(may_count).collect();
    let silent = match source.item.lapse {
        Lapse::Crash { .. } if source.item.timeout.is_none() => (0, 0),
        Lapse::Crash { .. } | Lapse::Failure | Lapse::Again => (0, 1),
    };
    let [only] = filed.as_slice() else {
        return if filed.is_empty() { silent } else { (0, 1) };
    };
    let sure = only
        .accepted()
        .is_some_and(|at| facts.holds(at, second.ended) && (!any || at.is_before(&second.begun)));
    match only.outcome {
        _ if !sure || only.delivery != Some(first.delivery()) => (0, 1),
        Outcome::Failed { .. } => (1, 1),
        Outcome::Snooze(_) | Outcome::Interrupted => (0, 0),
        Outcome::Done { .. } | Outcome::Cancel => (0, 1),
    }
}
