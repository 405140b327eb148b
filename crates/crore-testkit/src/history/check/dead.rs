//! **I14, retries end, and the dead are kept.** After an accepted failure that was the last (of the
//! last attempt, or said to be final), until the job may have been revived by hand: it is not handed
//! out again; looks and the dump show it dead (or cancelled, if somebody may have asked for that); and
//! it is not gone before its queue's time for dead jobs. A dead job that is revived by hand starts
//! again at attempt 1.

use crore_core::State;

use super::facts::{Ending, Facts, Filed, Job, Moment, Took};
use super::report::Findings;
use crate::history::op::Want;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for filed in &job.reports {
            let Some(at) = filed.accepted() else { continue };
            if matches!(facts.ending(job, filed), Ending::As(State::Dead) | Ending::Badly) {
                stays_dead(facts, job, at, findings);
                starts_again(facts, job, (filed, at), findings);
            }
        }
    }
}

fn stays_dead<'h>(facts: &Facts<'h>, job: &Job<'h>, dead: Moment, findings: &mut Findings) {
    let stays = |begun: Moment, at: Moment| {
        dead.is_before(&begun) && !job.revived(dead, at) && facts.holds(dead, at)
    };
    for grant in job.grants.iter().filter(|grant| stays(grant.begun, grant.ended)) {
        let at = grant.ended.i;
        let message =
            format!("handed out at {at}, after its last failure was accepted at {}", dead.i);
        findings.add(14, job.id, &[dead.i, grant.begun.i, at], message);
    }
    let looks = job.looks.iter();
    let looks = looks.map(|look| (look.begun, look.ended, look.job.map(|shown| shown.state)));
    let dumped = facts.dump.map(|(_, at)| (at, at, job.stored.map(|stored| stored.state)));
    for (_, at, state) in looks.chain(dumped).filter(|(begun, at, _)| stays(*begun, *at)) {
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

fn starts_again<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    (filed, dead): (&Filed<'h>, Moment),
    findings: &mut Findings,
) {
    let retries = job.wants.iter().filter(|w| *w.want == Want::Retry && w.took == Took::Yes);
    let Some(revived) = retries.filter(|w| dead.is_before(&w.begun)).find_map(|w| w.ended) else {
        return;
    };
    let Some(next) = job.grants.iter().find(|grant| revived.is_before(&grant.begun)) else {
        return;
    };
    let unseen = facts.unseen_fetch(&next.granted.queue, dead);
    let sure = unseen.is_none_or(|unseen| next.ended.is_before(&unseen))
        && facts.holds(revived, next.ended)
        && filed.delivery.is_some_and(|delivery| {
            job.grants.iter().all(|g| g.delivery() <= delivery || g.delivery() >= next.delivery())
        });
    if sure && next.granted.attempt != 1 {
        let (at, attempt) = (next.ended.i, next.granted.attempt);
        let message =
            format!("revived at {}, and handed out at {at} as attempt {attempt}", revived.i);
        findings.add(14, job.id, &[dead.i, revived.i, at], message);
    }
}
