//! **I10, never early.** No delivery is answered before its job is due: not before its delay after the
//! beginning of the push, nor before the instant that was named, by the store's time in the response and,
//! where the rules know the epoch, by the recorder's. The response's time is not before the due time that it
//! shows. A job that an operator may have retried or edited is not checked against its push.
//!
//! **I13, back-off is respected.** After an accepted failure or snooze, the next delivery is not answered
//! before the shortest delay that the policy or the report allows, counted from the beginning of the report,
//! unless an operator may have retried or edited the job, or no delivery held it any more.

use crore_core::retry::{Backoff, Retry};
use crore_core::{Span, Time};

use super::facts::{
    DeliveryGrant, HistoryFacts, HistoryMoment, JobFacts, PushSource, ReportCall, ReportEffect,
    nanos,
};
use super::leases::was_held;
use super::report::Findings;
use crate::history::op::{AdminAction, DueTime, RecordedOutcome, RecordedRetry};

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for grant in &job.grants {
            if let Some(now) = grant.now
                && now.after(facts.rules.tolerance) < grant.granted.due
            {
                let at = grant.ended.i;
                let message = format!("handed out at {at}, which is {now:?}: before it is due");
                findings.add(10, job.id, &[at], message);
            }
        }
    }
    for (job, source) in facts.sourced() {
        if let Some(first) = job.grants.iter().min_by_key(|grant| grant.ended.i)
            && !may_be_rescheduled(job, source.begun, first.ended)
        {
            check_due(facts, job, source, first, findings);
        }
        for report in &job.reports {
            check_backoff(facts, job, source, report, findings);
        }
    }
}

fn check_due(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    first: &DeliveryGrant<'_>,
    findings: &mut Findings,
) {
    let early = match source.item.due {
        DueTime::After(span) => is_early(facts, source.begun, first.ended, span),
        DueTime::At(time) => {
            let is_early_by_response =
                first.now.is_some_and(|now| now.after(facts.rules.tolerance) < time);
            is_early_by_response
                || latest_store_time(facts, first.ended).is_some_and(|now| now < time)
        }
        DueTime::Now | DueTime::Keep => false,
    };
    // A response that is early by its own due time is reported above already.
    let is_reported =
        first.now.is_some_and(|now| now.after(facts.rules.tolerance) < first.granted.due);
    if early && !is_reported {
        let at = first.ended.i;
        let message = format!("handed out at {at}, before it is due: {:?}", source.item.due);
        findings.add(10, job.id, &[source.begun.i, at], message);
    }
}

/// The latest time that the store's clock can have shown.
fn latest_store_time(facts: &HistoryFacts<'_>, at: HistoryMoment) -> Option<Time> {
    let since = at.fast.saturating_add(facts.rules.slack());
    let millis = i64::try_from(since / 1_000_000).ok()?;
    Some(Time::from_millis(facts.rules.epoch?.as_millis().saturating_add(millis)))
}

fn check_backoff(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    report: &ReportCall<'_>,
    findings: &mut Findings,
) {
    let (Some(accepted), Some(delivery)) = (report.accepted(), report.delivery) else { return };
    let Some(grant) = job.grant(delivery) else { return };
    let delay = match report.outcome {
        RecordedOutcome::Snooze(span) => *span,
        RecordedOutcome::Failed { again: RecordedRetry::After(span), .. } => *span,
        RecordedOutcome::Failed { again: RecordedRetry::ByPolicy, .. } => {
            min_delay(&source.item.retry, grant.granted.attempt)
        }
        RecordedOutcome::Failed { again: RecordedRetry::Never, .. }
        | RecordedOutcome::Done { .. }
        | RecordedOutcome::Cancel
        | RecordedOutcome::Interrupted => return,
    };
    let is_unheld = facts.any_delivery(job) && !was_held(facts, job, report);
    if facts.ending(job, report) != ReportEffect::Continues || is_unheld {
        return;
    }
    let next = job.grants.iter().filter(|next| next.delivery() > delivery);
    let Some(next) = next.min_by_key(|next| next.ended.i) else { return };
    if is_early(facts, report.begun, next.ended, delay)
        && accepted.is_before(if facts.any_delivery(job) { &next.begun } else { &next.ended })
        && facts.write_still_holds(accepted, next.ended)
        && !may_be_rescheduled(job, report.begun, next.ended)
    {
        let at = next.ended.i;
        let message =
            format!("handed out at {at}, less than {delay:?} after the report {}", report.begun.i);
        findings.add(13, job.id, &[report.begun.i, accepted.i, at], message);
    }
}

/// Whether less than `span` can have passed on the store's clock.
fn is_early(facts: &HistoryFacts<'_>, from: HistoryMoment, to: HistoryMoment, span: Span) -> bool {
    let passed = to.fast.saturating_sub(from.fast).saturating_add(facts.rules.slack());
    passed < nanos(span)
}

/// The shortest delay that a policy allows after an attempt, over all jitter.
fn min_delay(retry: &Retry, attempt: u32) -> Span {
    let plain = Retry { jitter: 0, ..*retry }.delay(attempt, 0);
    if retry.backoff == Backoff::Polynomial {
        return plain;
    }
    let reach = plain.as_millis().saturating_mul(u64::from(retry.jitter.min(100))) / 100;
    Span::from_millis(plain.as_millis() - reach)
}

fn may_be_rescheduled(job: &JobFacts<'_>, from: HistoryMoment, to: HistoryMoment) -> bool {
    job.admin_may_apply(from, to, |want| {
        matches!(want, AdminAction::Retry | AdminAction::Edit { .. })
    })
}
