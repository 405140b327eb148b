//! **I26, no job starts after its deadline.** The first delivery of a job has a store time before its deadline, which is
//! computed from the store's time in the response to its push, unless an operator may have retried the job or an unseen
//! fetch may have taken it before. A job that is dumped as expired was never delivered, and its follow-up exists.

use super::facts::{HistoryFacts, JobFacts, PushOrigin, PushSource, RecordedCall};
use super::report::Findings;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for (job, source) in facts.sourced() {
        check_start(facts, job, source, findings);
        if job.stored.is_some_and(|stored| stored.expired) {
            check_expired(facts, job, findings);
        }
    }
    check_follow_ups(facts, findings);
}

fn check_start(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    findings: &mut Findings,
) {
    let Some(deadline) = source.item.deadline else { return };
    let Some(first) = job.grants.first() else { return };
    // The follow-up of a missed deadline is pushed later than its parent.
    let is_pushed_by_call = !matches!(source.origin, PushOrigin::Expiry(_));
    let pushed_at = facts.calls.get(source.call).and_then(RecordedCall::now);
    let (Some(pushed_at), Some(now)) = (pushed_at.filter(|_| is_pushed_by_call), first.now) else {
        return;
    };
    let unseen = facts.unseen_fetch(&source.item.queue, source.begun);
    let may_have_started = unseen.is_some_and(|unseen| unseen.is_before(&first.ended))
        || job.may_be_revived(source.begun, first.ended);
    let deadline = deadline.resolve(pushed_at).after(facts.rules.tolerance);
    if now >= deadline && !may_have_started && is_first(job) {
        let at = first.ended.i;
        let message = format!("started at {at}, which is {now:?}: after its deadline {deadline:?}");
        findings.add(26, job.id, &[source.begun.i, at], message);
    }
}

/// Whether the first known delivery can be the first start. An earlier one may have been lost in a crash.
fn is_first(job: &JobFacts<'_>) -> bool {
    job.grants.first().is_some_and(|first| first.granted.attempt <= 1)
}

fn check_expired(facts: &HistoryFacts<'_>, job: &JobFacts<'_>, findings: &mut Findings) {
    let Some((_, dumped)) = facts.dump else { return };
    let mut grants = job.grants.iter();
    if let Some(grant) = grants.find(|grant| facts.write_still_holds(grant.ended, dumped)) {
        let at = grant.ended.i;
        let message = format!("expired, although it was handed out at {at}");
        findings.add(26, job.id, &[at, dumped.i], message);
    }
}

/// The follow-up of an expired job is pushed in the same write. It may be gone unseen only if an unseen fetch may have
/// taken it, or if it was not stored because of a key.
fn check_follow_ups(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let Some((_, dumped)) = facts.dump else { return };
    for source in &facts.sources.all {
        let PushOrigin::Expiry(parent) = source.origin else { continue };
        let parent = facts.sources.all.get(parent).and_then(|parent| parent.id);
        let parent = parent.and_then(|id| facts.jobs.get(&id));
        let Some(parent) = parent.filter(|job| job.stored.is_some_and(|stored| stored.expired))
        else {
            continue;
        };
        let is_plain = source.item.unique.is_none() && source.item.after.is_empty();
        let may_be_taken = facts.unseen_fetch(&source.item.queue, source.begun).is_some();
        if source.id.is_none() && is_plain && !may_be_taken {
            let message = "expired, but its follow-up was not pushed".to_owned();
            findings.add(26, parent.id, &[source.begun.i, dumped.i], message);
        }
    }
}
