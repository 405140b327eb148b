//! **I10, never early.** No delivery is answered before its job is due: not before its delay after
//! the beginning of the push, nor before the instant that was named, by the store's time in the
//! answer and, where the rules know what that was, by the recorder's; and the answer's time is not
//! before the due time that it shows. A job that may have been retried or edited by hand is not held
//! to what its push said.
//!
//! **I13, back-off is respected.** After an accepted failure or snooze the next delivery is not
//! answered before the shortest delay that the policy, or the report, allows, counted from the
//! beginning of the report; unless somebody may have retried or edited it by hand.

use crore_core::retry::{Backoff, Retry};
use crore_core::{Span, Time};

use super::facts::{Ending, Facts, Filed, Grant, Job, Moment, Source, nanos};
use super::report::Findings;
use crate::history::op::{Again, Outcome, Want, When};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
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
            && !moved(job, source.begun, first.ended)
        {
            as_pushed(facts, job, source, first, findings);
        }
        for filed in &job.reports {
            backoff(facts, job, source, filed, findings);
        }
    }
}

fn as_pushed(
    facts: &Facts<'_>,
    job: &Job<'_>,
    source: &Source<'_>,
    first: &Grant<'_>,
    findings: &mut Findings,
) {
    let early = match source.item.due {
        When::After(span) => is_early(facts, source.begun, first.ended, span),
        When::At(time) => {
            let told = first.now.is_some_and(|now| now.after(facts.rules.tolerance) < time);
            told || latest(facts, first.ended).is_some_and(|now| now < time)
        }
        When::Now | When::Keep => false,
    };
    // An answer that shows by itself that it is early is one finding, not two.
    let shown = first.now.is_some_and(|now| now.after(facts.rules.tolerance) < first.granted.due);
    if early && !shown {
        let at = first.ended.i;
        let message = format!("handed out at {at}, before it is due: {:?}", source.item.due);
        findings.add(10, job.id, &[source.begun.i, at], message);
    }
}

/// The latest that the store's clock can have shown.
fn latest(facts: &Facts<'_>, at: Moment) -> Option<Time> {
    let since = at.fast.saturating_add(facts.rules.slack());
    let millis = i64::try_from(since / 1_000_000).ok()?;
    Some(Time::from_millis(facts.rules.epoch?.as_millis().saturating_add(millis)))
}

fn backoff(
    facts: &Facts<'_>,
    job: &Job<'_>,
    source: &Source<'_>,
    filed: &Filed<'_>,
    findings: &mut Findings,
) {
    let (Some(accepted), Some(delivery)) = (filed.accepted(), filed.delivery) else { return };
    let Some(grant) = job.grant(delivery) else { return };
    let delay = match filed.outcome {
        Outcome::Snooze(span) => *span,
        Outcome::Failed { again: Again::After(span), .. } => *span,
        Outcome::Failed { again: Again::ByPolicy, .. } => {
            shortest(&source.item.retry, grant.granted.attempt)
        }
        Outcome::Failed { again: Again::Never, .. }
        | Outcome::Done { .. }
        | Outcome::Cancel
        | Outcome::Interrupted => return,
    };
    if facts.ending(job, filed) != Ending::Open {
        return;
    }
    let next = job.grants.iter().filter(|next| next.delivery() > delivery);
    let Some(next) = next.min_by_key(|next| next.ended.i) else { return };
    if is_early(facts, filed.begun, next.ended, delay)
        && accepted.is_before(if facts.any_delivery(job) { &next.begun } else { &next.ended })
        && facts.holds(accepted, next.ended)
        && !moved(job, filed.begun, next.ended)
    {
        let at = next.ended.i;
        let message =
            format!("handed out at {at}, less than {delay:?} after the report {}", filed.begun.i);
        findings.add(13, job.id, &[filed.begun.i, accepted.i, at], message);
    }
}

/// Whether less than a span can have passed on the store's clock.
fn is_early(facts: &Facts<'_>, from: Moment, to: Moment, span: Span) -> bool {
    let passed = to.fast.saturating_sub(from.fast).saturating_add(facts.rules.slack());
    passed < nanos(span)
}

/// The shortest delay that a policy allows after an attempt, whatever the dice say.
fn shortest(retry: &Retry, attempt: u32) -> Span {
    let plain = Retry { jitter: 0, ..*retry }.delay(attempt, 0);
    if retry.backoff == Backoff::Polynomial {
        return plain;
    }
    let reach = plain.as_millis().saturating_mul(u64::from(retry.jitter.min(100))) / 100;
    Span::from_millis(plain.as_millis() - reach)
}

fn moved(job: &Job<'_>, from: Moment, to: Moment) -> bool {
    job.meddled(from, to, |want| matches!(want, Want::Retry | Want::Edit { .. }))
}
