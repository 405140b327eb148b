//! **I16, what is cancelled is not handed out.** After a cancellation was answered, whether the job
//! was waiting or running, no fetch that begins later hands it out, until somebody may have revived
//! it by hand; and if it was waiting, so that it has ended, no report that is sent later is accepted.

use super::facts::{Facts, Job, Moment, Took};
use super::report::Findings;
use crate::history::op::Want;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for job in facts.jobs.values() {
        for wanted in job.wants.iter().filter(|wanted| *wanted.want == Want::Cancel) {
            if let (Took::Yes, Some(at)) = (wanted.took, wanted.ended) {
                after(facts, job, (wanted.begun, at), wanted.asked, findings);
            }
        }
    }
}

fn after<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    (asked, cancelled): (Moment, Moment),
    ran: bool,
    findings: &mut Findings,
) {
    let stays = |begun: Moment, at: Moment| {
        cancelled.is_before(&begun) && !job.revived(asked, at) && facts.holds(cancelled, at)
    };
    if let Some(grant) = job.grants.iter().find(|grant| stays(grant.begun, grant.ended)) {
        let at = grant.ended.i;
        let message = format!("handed out at {at}, after it was cancelled at {}", cancelled.i);
        findings.add(16, job.id, &[cancelled.i, grant.begun.i, at], message);
    }
    let accepted = job.reports.iter().filter_map(|filed| Some((filed.begun, filed.accepted()?)));
    if let Some((begun, at)) = { accepted }.find(|(begun, at)| !ran && stays(*begun, *at)) {
        let message = format!("reported at {}, after it was cancelled at {}", at.i, cancelled.i);
        findings.add(16, job.id, &[cancelled.i, begun.i, at.i], message);
    }
}
