//! **I7, the first report wins.** Until an operator retries the job:
//!
//! - after an accepted report that ended the job, no other report is accepted, and two such reports are never
//!   accepted;
//! - a reporting delivery was granted; where reports are *fenced*, no newer delivery was answered before the
//!   report was sent (unless a crash may have lost that delivery, and with it the end of this one), and no
//!   delivery has two accepted reports; where reports of *any* delivery count, the job was handed over between
//!   two accepted reports (a delivery may be returned unfinished besides);
//! - the only report of the only delivery, sent and answered within its lease, is not stale;
//! - a report within a renewed lease is not stale either, if no other report that counts may have come since
//!   the request for that renewal: the renewal proves that the delivery holds the job;
//! - gets, takes and the dump show the state and the result of the accepted report, and no job is done that
//!   was not reported as done.

use crore_core::State;

use super::facts::{
    DeliveryGrant, EffectCertainty, HistoryFacts, HistoryMoment, JobFacts, RenewCall, ReportCall,
    ReportEffect, nanos,
};
use super::integrity::was_reported;
use super::leases::is_live;
use super::report::Findings;
use crate::history::op::{AdminAction, RecordedOutcome};

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for (n, report) in job.reports.iter().enumerate() {
            check_fencing(facts, job, report, findings);
            check_sole_report(facts, job, report, findings);
            check_renewed(facts, job, report, findings);
            for other in &job.reports[n + 1..] {
                check_both_accepted(facts, job, (report, other), findings);
            }
        }
        check_outcome_stays(facts, job, findings);
        check_done_was_reported(facts, job, findings);
    }
}

fn check_fencing(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    report: &ReportCall<'_>,
    findings: &mut Findings,
) {
    let (Some(accepted), Some(delivery)) = (report.accepted(), report.delivery) else { return };
    if job.grant(delivery).is_none() {
        let message = format!("{delivery:?} was accepted at {}, but never granted", accepted.i);
        findings.add(7, job.id, &[report.begun.i, accepted.i], message);
    }
    if facts.any_delivery(job) {
        return;
    }
    let newer = job.grants.iter().find(|grant| {
        grant.delivery() > delivery
            && grant.ended.is_before(&report.begun)
            && facts.claim_still_holds(grant.ended, accepted)
    });
    if let Some(newer) = newer {
        let message = format!(
            "the report of {delivery:?} was accepted at {}, after {:?} was granted",
            accepted.i,
            newer.delivery()
        );
        findings.add(7, job.id, &[newer.ended.i, report.begun.i, accepted.i], message);
    }
}

/// A report that no other event can have preceded must count.
fn check_sole_report<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    report: &ReportCall<'h>,
    findings: &mut Findings,
) {
    let (true, Some(at), Some(delivery)) = (report.stale, report.ended, report.delivery) else {
        return;
    };
    let Some(grant) = job.grant(delivery) else { return };
    let others = job.reports.iter().any(|other| {
        other.begun.i != report.begun.i
            && other.effect != EffectCertainty::No
            && other.begun.is_before(&at)
    });
    let newer =
        job.grants.iter().any(|other| other.delivery() > delivery && other.begun.is_before(&at));
    let changed_otherwise = job.admin_may_apply(grant.begun, at, |_| true)
        || job
            .upkeep_calls
            .iter()
            .any(|notice| notice.effect != EffectCertainty::No && notice.begun.is_before(&at))
        || job.renewals.iter().any(|renewal| renewal.span.is_none());
    let unseen = facts.unseen_fetch(&grant.granted.queue, grant.ended);
    let asked_before = HistoryMoment { i: report.begun.i, ..at };
    if !others
        && !newer
        && !changed_otherwise
        && unseen.is_none_or(|unseen| at.is_before(&unseen))
        && is_live(facts, job, grant, asked_before)
        && facts.claim_still_holds(grant.ended, at)
    {
        let message =
            format!("the only report, of {delivery:?} within its lease, was stale at {}", at.i);
        findings.add(7, job.id, &[grant.ended.i, report.begun.i, at.i], message);
    }
}

/// A report within a renewed lease must count.
fn check_renewed<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    report: &ReportCall<'h>,
    findings: &mut Findings,
) {
    let (true, Some(at), Some(delivery)) = (report.stale, report.ended, report.delivery) else {
        return;
    };
    let has_timeout = facts.sources.of(job.id).is_none_or(|source| source.item.timeout.is_some());
    let holds = |renewal: &&RenewCall| {
        let Some(span) = renewal.span else { return false };
        let over = renewal.begun.fast.saturating_add(nanos(span));
        renewal.delivery == delivery
            && renewal.ended.is_before(&report.begun)
            && at.fast.saturating_add(facts.rules.slack()) < over
            && facts.claim_still_holds(renewal.ended, at)
            && !may_end(facts, job, (renewal, report), at)
    };
    if has_timeout {
        return;
    }
    if let Some(renewal) = job.renewals.iter().find(holds) {
        let message = format!(
            "the report of {delivery:?}, whose lease was renewed at {}, was stale at {}",
            renewal.ended.i, at.i
        );
        findings.add(7, job.id, &[renewal.ended.i, report.begun.i, at.i], message);
    }
}

/// Whether a delivery may have ended between its renewal and the response to its report. Where reports are
/// fenced, those of other deliveries do not end it.
fn may_end<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    (renewal, report): (&RenewCall, &ReportCall<'h>),
    at: HistoryMoment,
) -> bool {
    let any = facts.any_delivery(job);
    let reported = job.reports.iter().any(|other| {
        let same = other.delivery.is_none_or(|delivery| delivery == renewal.delivery);
        let before = other.effect == EffectCertainty::Yes
            && other.ended.is_some_and(|ended| ended.is_before(&renewal.begun));
        other.begun.i != report.begun.i
            && other.effect != EffectCertainty::No
            && (any || same)
            && !before
            && other.begun.is_before(&at)
    });
    let noticed = job.upkeep_calls.iter().any(|notice| {
        let same = notice.delivery.is_none_or(|delivery| delivery == renewal.delivery);
        same && notice.effect != EffectCertainty::No && notice.begun.is_before(&at)
    });
    let refused = job.renewals.iter().any(|other| {
        other.delivery == renewal.delivery && other.span.is_none() && other.begun.is_before(&at)
    });
    reported || noticed || refused || job.admin_may_apply(renewal.begun, at, |_| true)
}

fn check_both_accepted<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    (a, b): (&ReportCall<'h>, &ReportCall<'h>),
    findings: &mut Findings,
) {
    let (Some(at), Some(then)) = (a.accepted(), b.accepted()) else { return };
    let (first, second, at, then) =
        if at.is_before(&then) { (a, b, at, then) } else { (b, a, then, at) };
    if job.may_be_revived(first.begun, then) || !facts.write_still_holds(at, then) {
        return;
    }
    let ends = |report| facts.ending(job, report).is_end();
    let in_turn = at.is_before(&second.begun);
    let twice = if facts.any_delivery(job) {
        let is_result = |report: &ReportCall<'h>| *report.outcome != RecordedOutcome::Interrupted;
        is_result(first) && is_result(second) && !may_be_handed_over(facts, job, (first, second))
    } else {
        first.delivery.is_some() && first.delivery == second.delivery
    };
    if twice || (ends(first) && (in_turn || ends(second))) {
        let message = format!("two reports were accepted, at {} and {}", at.i, then.i);
        findings.add(7, job.id, &[at.i, second.begun.i, then.i], message);
    }
}

/// Whether the job may have been handed over between two accepted reports.
fn may_be_handed_over<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    (first, second): (&ReportCall<'h>, &ReportCall<'h>),
) -> bool {
    let Some(source) = facts.sources.of(job.id) else { return true };
    let (first_begun, until) = (first.begun, second.ended.unwrap_or(facts.end));
    let from = if first_begun.is_before(&second.begun) { first_begun } else { second.begun };
    let seen =
        |grant: &DeliveryGrant<'h>| from.is_before(&grant.ended) && grant.begun.is_before(&until);
    let unseen =
        |queue| facts.unseen_fetch(queue, from).is_some_and(|unseen| unseen.is_before(&until));
    let queues = job.grants.iter().map(|grant| &grant.granted.queue).chain([&source.item.queue]);
    let is_moved = |action: &AdminAction| matches!(action, AdminAction::Edit { .. });
    job.grants.iter().any(seen)
        || queues.into_iter().any(unseen)
        || job.admin_may_apply(source.begun, until, is_moved)
}

fn check_outcome_stays<'h>(facts: &HistoryFacts<'h>, job: &JobFacts<'h>, findings: &mut Findings) {
    for report in &job.reports {
        let Some(accepted) = report.accepted() else { continue };
        let ReportEffect::EndedAs(state @ (State::Done | State::Cancelled)) =
            facts.ending(job, report)
        else {
            continue;
        };
        let mut compare = |begun: HistoryMoment, at: HistoryMoment, is: State| {
            let stays = accepted.is_before(&begun)
                && !job.may_be_revived(accepted, at)
                && facts.write_still_holds(accepted, at);
            if stays && is != state {
                let message = format!(
                    "reported as {state:?}, accepted at {}, and {is:?} at {}",
                    accepted.i, at.i
                );
                findings.add(7, job.id, &[accepted.i, at.i], message);
            }
        };
        for get in &job.gets {
            if let Some(job_seen) = get.job {
                compare(get.begun, get.ended, job_seen.state);
            }
        }
        if let (Some(stored), Some((_, at))) = (job.stored, facts.dump) {
            compare(at, at, stored.state);
        }
        check_result_source(facts, job, (report, accepted), findings);
    }
}

/// Finds a result of another report after a report that ended the job.
fn check_result_source<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    (report, accepted): (&ReportCall<'h>, HistoryMoment),
    findings: &mut Findings,
) {
    let looked = job.gets.iter().filter_map(|l| Some((l.begun, l.ended, l.job?.result?)));
    let taken = job.takes.iter().filter_map(|t| Some((t.begun, t.ended?, t.result?)));
    let dumped = facts.dump.and_then(|(_, at)| Some((at, at, job.stored?.result?)));
    for (begun, at, result) in looked.chain(taken).chain(dumped) {
        let stays = accepted.is_before(&begun)
            && !job.may_be_revived(accepted, at)
            && facts.write_still_holds(accepted, at);
        if stays && report.result() != Some(result) && was_reported(job, result, at) {
            let message = format!("at {} it has the result of a report that did not count", at.i);
            findings.add(7, job.id, &[accepted.i, at.i], message);
        }
    }
}

fn check_done_was_reported(facts: &HistoryFacts<'_>, job: &JobFacts<'_>, findings: &mut Findings) {
    let is_fire_and_forget =
        facts.sources.of(job.id).is_none_or(|source| source.item.lease.is_none());
    let done_at = |at: HistoryMoment| {
        job.reports.iter().any(|report| {
            report.effect != EffectCertainty::No
                && matches!(report.outcome, RecordedOutcome::Done { .. })
                && report.begun.is_before(&at)
        })
    };
    let gets = job.gets.iter().filter_map(|get| Some((get.job?.state, get.ended)));
    let dumped = facts.dump.and_then(|(_, at)| Some((job.stored?.state, at)));
    for (state, at) in gets.chain(dumped) {
        if state == State::Done && !is_fire_and_forget && !done_at(at) {
            let message = format!("done at {}, but never reported", at.i);
            findings.add(7, job.id, &[at.i], message);
        }
    }
}
