//! **I7, the first report wins.** Within one life of a job (a retry by hand begins another):
//!
//! - after a report was accepted that ended the job, no other is accepted, and never two of those;
//! - a delivery that reports is one that was granted; where reports are *fenced*, no newer delivery
//!   was answered before the report was sent (unless a crash may have forgotten that delivery, and with
//!   it the end of this one), and no delivery has two accepted reports;
//! - the only report of the only delivery, sent and answered within its lease, is not stale;
//! - nor is a report within a lease that was renewed, if no other report that counts may have come since the
//!   asking for that renewal: the renewal says that the delivery holds the job, so no fetch has it;
//! - what was reported is what is there: looks, takings and the dump show the state and the result of
//!   the accepted report, and no job is done that nobody reported as done.

use crore_core::State;

use super::facts::{Ending, Facts, Filed, Job, Moment, Renewal, Took, nanos};
use super::integrity::was_reported;
use super::leases::is_live;
use super::report::Findings;
use crate::history::op::Outcome;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for (n, filed) in job.reports.iter().enumerate() {
            fenced(facts, job, filed, findings);
            alone(facts, job, filed, findings);
            renewed(facts, job, filed, findings);
            for other in &job.reports[n + 1..] {
                both_accepted(facts, job, (filed, other), findings);
            }
        }
        outcome_stays(facts, job, findings);
        done_by_somebody(facts, job, findings);
    }
}

fn fenced(facts: &Facts<'_>, job: &Job<'_>, filed: &Filed<'_>, findings: &mut Findings) {
    let (Some(accepted), Some(delivery)) = (filed.accepted(), filed.delivery) else { return };
    if job.grant(delivery).is_none() {
        let message = format!("{delivery:?} was accepted at {}, but never granted", accepted.i);
        findings.add(7, job.id, &[filed.begun.i, accepted.i], message);
    }
    if facts.any_delivery(job) {
        return;
    }
    let newer = job.grants.iter().find(|grant| {
        grant.delivery() > delivery
            && grant.ended.is_before(&filed.begun)
            && facts.recalls(grant.ended, accepted)
    });
    if let Some(newer) = newer {
        let message = format!(
            "the report of {delivery:?} was accepted at {}, after {:?} was granted",
            accepted.i,
            newer.delivery()
        );
        findings.add(7, job.id, &[newer.ended.i, filed.begun.i, accepted.i], message);
    }
}

/// A report that nothing can have come before counts.
fn alone<'h>(facts: &Facts<'h>, job: &Job<'h>, filed: &Filed<'h>, findings: &mut Findings) {
    let (true, Some(at), Some(delivery)) = (filed.stale, filed.ended, filed.delivery) else {
        return;
    };
    let Some(grant) = job.grant(delivery) else { return };
    let others = job.reports.iter().any(|other| {
        other.begun.i != filed.begun.i && other.took != Took::No && other.begun.is_before(&at)
    });
    let newer =
        job.grants.iter().any(|other| other.delivery() > delivery && other.begun.is_before(&at));
    let meddled = job.meddled(grant.begun, at, |_| true)
        || job.notices.iter().any(|notice| notice.took != Took::No && notice.begun.is_before(&at))
        || job.renewals.iter().any(|renewal| renewal.span.is_none());
    let unseen = facts.unseen_fetch(&grant.granted.queue, grant.ended);
    let asked_before = Moment { i: filed.begun.i, ..at };
    if !others
        && !newer
        && !meddled
        && unseen.is_none_or(|unseen| at.is_before(&unseen))
        && is_live(facts, job, grant, asked_before)
        && facts.recalls(grant.ended, at)
    {
        let message =
            format!("the only report, of {delivery:?} in its time, was stale at {}", at.i);
        findings.add(7, job.id, &[grant.ended.i, filed.begun.i, at.i], message);
    }
}

/// A report within a lease that was renewed counts.
fn renewed<'h>(facts: &Facts<'h>, job: &Job<'h>, filed: &Filed<'h>, findings: &mut Findings) {
    let (true, Some(at), Some(delivery)) = (filed.stale, filed.ended, filed.delivery) else {
        return;
    };
    let has_timeout = facts.sources.of(job.id).is_none_or(|source| source.item.timeout.is_some());
    let holds = |renewal: &&Renewal| {
        let Some(span) = renewal.span else { return false };
        let over = renewal.begun.fast.saturating_add(nanos(span));
        renewal.delivery == delivery
            && renewal.ended.is_before(&filed.begun)
            && at.fast.saturating_add(facts.rules.slack()) < over
            && facts.recalls(renewal.ended, at)
            && !may_end(facts, job, (renewal, filed), at)
    };
    if has_timeout {
        return;
    }
    if let Some(renewal) = job.renewals.iter().find(holds) {
        let message = format!(
            "the report of {delivery:?}, whose lease was renewed at {}, was stale at {}",
            renewal.ended.i, at.i
        );
        findings.add(7, job.id, &[renewal.ended.i, filed.begun.i, at.i], message);
    }
}

/// Whether a delivery may have ended between its renewal and the answer to a report of it. Where reports are fenced,
/// those of other deliveries do not end it.
fn may_end<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    (renewal, filed): (&Renewal, &Filed<'h>),
    at: Moment,
) -> bool {
    let any = facts.any_delivery(job);
    let reported = job.reports.iter().any(|other| {
        let same = other.delivery.is_none_or(|delivery| delivery == renewal.delivery);
        let before = other.took == Took::Yes
            && other.ended.is_some_and(|ended| ended.is_before(&renewal.begun));
        other.begun.i != filed.begun.i
            && other.took != Took::No
            && (any || same)
            && !before
            && other.begun.is_before(&at)
    });
    let noticed = job.notices.iter().any(|notice| {
        let same = notice.delivery.is_none_or(|delivery| delivery == renewal.delivery);
        same && notice.took != Took::No && notice.begun.is_before(&at)
    });
    let refused = job.renewals.iter().any(|other| {
        other.delivery == renewal.delivery && other.span.is_none() && other.begun.is_before(&at)
    });
    reported || noticed || refused || job.meddled(renewal.begun, at, |_| true)
}

fn both_accepted<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    (a, b): (&Filed<'h>, &Filed<'h>),
    findings: &mut Findings,
) {
    let (Some(at), Some(then)) = (a.accepted(), b.accepted()) else { return };
    let (first, second, at, then) =
        if at.is_before(&then) { (a, b, at, then) } else { (b, a, then, at) };
    if job.revived(first.begun, then) || !facts.holds(at, then) {
        return;
    }
    let ends = |filed| facts.ending(job, filed).is_end();
    let in_turn = at.is_before(&second.begun);
    let same = first.delivery.is_some() && first.delivery == second.delivery;
    let twice = same && !facts.any_delivery(job);
    if twice || (ends(first) && (in_turn || ends(second))) {
        let message = format!("two reports were accepted, at {} and {}", at.i, then.i);
        findings.add(7, job.id, &[at.i, second.begun.i, then.i], message);
    }
}

fn outcome_stays<'h>(facts: &Facts<'h>, job: &Job<'h>, findings: &mut Findings) {
    for filed in &job.reports {
        let Some(accepted) = filed.accepted() else { continue };
        let Ending::As(state @ (State::Done | State::Cancelled)) = facts.ending(job, filed) else {
            continue;
        };
        let mut compare = |begun: Moment, at: Moment, is: State| {
            let stays = accepted.is_before(&begun)
                && !job.revived(accepted, at)
                && facts.holds(accepted, at);
            if stays && is != state {
                let message = format!(
                    "reported as {state:?}, accepted at {}, and {is:?} at {}",
                    accepted.i, at.i
                );
                findings.add(7, job.id, &[accepted.i, at.i], message);
            }
        };
        for look in &job.looks {
            if let Some(shown) = look.job {
                compare(look.begun, look.ended, shown.state);
            }
        }
        if let (Some(stored), Some((_, at))) = (job.stored, facts.dump) {
            compare(at, at, stored.state);
        }
        another_result(facts, job, (filed, accepted), findings);
    }
}

/// After a report that ended the job, a result that somebody else reported.
fn another_result<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    (filed, accepted): (&Filed<'h>, Moment),
    findings: &mut Findings,
) {
    let looked = job.looks.iter().filter_map(|l| Some((l.begun, l.ended, l.job?.result?)));
    let taken = job.takings.iter().filter_map(|t| Some((t.begun, t.ended?, t.result?)));
    let dumped = facts.dump.and_then(|(_, at)| Some((at, at, job.stored?.result?)));
    for (begun, at, result) in looked.chain(taken).chain(dumped) {
        let stays =
            accepted.is_before(&begun) && !job.revived(accepted, at) && facts.holds(accepted, at);
        if stays && filed.result() != Some(result) && was_reported(job, result, at) {
            let message = format!("at {} it has the result of a report that did not count", at.i);
            findings.add(7, job.id, &[accepted.i, at.i], message);
        }
    }
}

fn done_by_somebody(facts: &Facts<'_>, job: &Job<'_>, findings: &mut Findings) {
    let hands_over = facts.sources.of(job.id).is_none_or(|source| source.item.lease.is_none());
    let done_at = |at: Moment| {
        job.reports.iter().any(|filed| {
            filed.took != Took::No
                && matches!(filed.outcome, Outcome::Done { .. })
                && filed.begun.is_before(&at)
        })
    };
    let looks = job.looks.iter().filter_map(|look| Some((look.job?.state, look.ended)));
    let dumped = facts.dump.and_then(|(_, at)| Some((job.stored?.state, at)));
    for (state, at) in looks.chain(dumped) {
        if state == State::Done && !hands_over && !done_at(at) {
            let message = format!("done at {}, which nobody reported", at.i);
            findings.add(7, job.id, &[at.i], message);
        }
    }
}
