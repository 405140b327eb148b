//! **I14, retries end, and dead jobs are kept.** After an accepted final failure (of the last attempt, or
//! reported as final), until an operator may have retried the job: it is not delivered again; gets and the
//! dump show it dead (or cancelled, if a cancellation may have been requested); and it is kept for its
//! queue's retention of dead jobs. A dead job that an operator retries starts again at attempt 1.

use crore_core::State;

use super::facts::{
    EffectCertainty, HistoryFacts, HistoryMoment, JobFacts, ReportCall, ReportEffect,
};
use super::report::Findings;
use crate::history::op::AdminAction;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for report in &job.reports {
            let Some(at) = report.accepted() else { continue };
            if matches!(
                facts.ending(job, report),
                ReportEffect::EndedAs(State::Dead) | ReportEffect::DeadOrCancelled
            ) {
                check_stays_dead(facts, job, at, findings);
                check_restart(facts, job, (report, at), findings);
            }
        }
    }
}

fn check_stays_dead<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    dead: HistoryMoment,
    findings: &mut Findings,
) {
    let stays = |begun: HistoryMoment, at: HistoryMoment| {
        dead.is_before(&begun) && !job.may_be_revived(dead, at) && facts.write_still_holds(dead, at)
    };
    for grant in job.grants.iter().filter(|grant| stays(grant.begun, grant.ended)) {
        let at = grant.ended.i;
        let message =
            format!("handed out at {at}, after its last failure was accepted at {}", dead.i);
        findings.add(14, job.id, &[dead.i, grant.begun.i, at], message);
    }
    let gets = job.gets.iter();
    let gets = gets.map(|get| (get.begun, get.ended, get.job.map(|shown| shown.state)));
    let dumped = facts.dump.map(|(_, at)| (at, at, job.stored.map(|stored| stored.state)));
    for (_, at, state) in gets.chain(dumped).filter(|(begun, at, _)| stays(*begun, *at)) {
        let wrong = match state {
            Some(State::Dead | State::Cancelled) => None,
            Some(state) => Some(format!("{state:?}")),
            None if facts.may_be_gone(job, at) => None,
            None => Some("gone".to_owned()),
        };
        if let Some(state) = wrong {
            let message = format!("dead since {}, but {state} at {}", dead.i, at.i);
            findings.add(14, job.id, &[dead.i, at.i], message);
        }
    }
}

fn check_restart<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    (report, dead): (&ReportCall<'h>, HistoryMoment),
    findings: &mut Findings,
) {
    let retries = job
        .admin_calls
        .iter()
        .filter(|w| *w.action == AdminAction::Retry && w.effect == EffectCertainty::Yes);
    let Some(revived) = retries.filter(|w| dead.is_before(&w.begun)).find_map(|w| w.ended) else {
        return;
    };
    let Some(next) = job.grants.iter().find(|grant| revived.is_before(&grant.begun)) else {
        return;
    };
    let unseen = facts.unseen_fetch(&next.granted.queue, dead);
    let sure = unseen.is_none_or(|unseen| next.ended.is_before(&unseen))
        && facts.write_still_holds(revived, next.ended)
        && report.delivery.is_some_and(|delivery| {
            job.grants.iter().all(|g| g.delivery() <= delivery || g.delivery() >= next.delivery())
        });
    if sure && next.granted.attempt != 1 {
        let (at, attempt) = (next.ended.i, next.granted.attempt);
        let message =
            format!("revived at {}, and handed out at {at} as attempt {attempt}", revived.i);
        findings.add(14, job.id, &[dead.i, revived.i, at], message);
    }
}
