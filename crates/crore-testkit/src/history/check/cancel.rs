//! **I16, a cancelled job is not delivered.** After a cancellation was acknowledged, whether the job was
//! waiting or running, no fetch that begins later delivers it, until an operator may have retried it. If the
//! job was waiting, so that the cancellation ended it, no report that is sent later is accepted.

use super::facts::{EffectCertainty, HistoryFacts, HistoryMoment, JobFacts};
use super::report::Findings;
use crate::history::op::AdminAction;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for admin_call in
            job.admin_calls.iter().filter(|admin_call| *admin_call.action == AdminAction::Cancel)
        {
            if let (EffectCertainty::Yes, Some(at)) = (admin_call.effect, admin_call.ended) {
                check_after_cancel(facts, job, (admin_call.begun, at), admin_call.asked, findings);
            }
        }
    }
}

fn check_after_cancel<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    (asked, cancelled): (HistoryMoment, HistoryMoment),
    ran: bool,
    findings: &mut Findings,
) {
    let stays = |begun: HistoryMoment, at: HistoryMoment| {
        cancelled.is_before(&begun)
            && !job.may_be_revived(asked, at)
            && facts.write_still_holds(cancelled, at)
    };
    if let Some(grant) = job.grants.iter().find(|grant| stays(grant.begun, grant.ended)) {
        let at = grant.ended.i;
        let message = format!("handed out at {at}, after it was cancelled at {}", cancelled.i);
        findings.add(16, job.id, &[cancelled.i, grant.begun.i, at], message);
    }
    let accepted = job.reports.iter().filter_map(|report| Some((report.begun, report.accepted()?)));
    if let Some((begun, at)) = { accepted }.find(|(begun, at)| !ran && stays(*begun, *at)) {
        let message = format!("reported at {}, after it was cancelled at {}", at.i, cancelled.i);
        findings.add(16, job.id, &[cancelled.i, begun.i, at.i], message);
    }
}
