//! **I4, delivered data equals pushed data.** Every delivery, get and dump of a job shows the payload that
//! was pushed. Deliveries and the dump also show its queue and priority, unless it may have been edited, and
//! its lease. A job pushed for an instant is not shown as due before it. The dump also shows its kind and
//! unique key. Every result that was read or dumped was reported for this job.

use super::facts::{HistoryFacts, HistoryMoment, JobFacts, PushSource};
use super::report::Findings;
use crate::history::PayloadHash;
use crate::history::op::{AdminAction, DueTime};

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for (job, source) in facts.sourced() {
        deliveries(job, source, findings);
        check_gets(job, source, findings);
        dumped(facts, job, source, findings);
        results(facts, job, findings);
    }
}

fn deliveries(job: &JobFacts<'_>, source: &PushSource<'_>, findings: &mut Findings) {
    let item = source.item;
    for grant in &job.grants {
        let granted = grant.granted;
        let mut differs = |what: &str, is: String, was: String| {
            let message = format!("handed out at {} with {what} {is}, not {was}", grant.ended.i);
            findings.add(4, job.id, &[source.begun.i, grant.ended.i], message);
        };
        if granted.payload != item.payload {
            differs("payload", granted.payload.to_string(), item.payload.to_string());
        }
        if granted.lease != item.lease {
            differs("lease", format!("{:?}", granted.lease), format!("{:?}", item.lease));
        }
        if edited(job, source, grant.ended) {
            continue;
        }
        if granted.queue != item.queue {
            differs("queue", granted.queue.to_string(), item.queue.to_string());
        }
        if granted.priority != item.priority {
            differs("priority", granted.priority.to_string(), item.priority.to_string());
        }
        let retried = job.may_be_revived(source.begun, grant.ended);
        if let DueTime::At(time) = item.due
            && granted.due < time
            && !retried
        {
            differs("due", format!("{:?}", granted.due), format!("{time:?}"));
        }
    }
}

fn check_gets(job: &JobFacts<'_>, source: &PushSource<'_>, findings: &mut Findings) {
    for get in &job.gets {
        if let Some(seen) = get.job
            && seen.payload != source.item.payload
        {
            let at = get.ended.i;
            let message = format!("seen at {at} with payload {}", seen.payload);
            findings.add(4, job.id, &[source.begun.i, at], message);
        }
    }
}

fn dumped(
    facts: &HistoryFacts<'_>,
    job: &JobFacts<'_>,
    source: &PushSource<'_>,
    findings: &mut Findings,
) {
    let (Some(stored), Some((_, at))) = (job.stored, facts.dump) else { return };
    let item = source.item;
    let key = item.unique.as_ref().map(|unique| &unique.key);
    let moved = (&stored.queue, stored.priority) != (&item.queue, item.priority);
    let wrong = [
        (stored.payload != item.payload, "payload"),
        (moved && !edited(job, source, at), "queue or priority"),
        (stored.kind != item.kind, "kind"),
        (stored.unique.as_ref() != key, "unique key"),
    ];
    for (_, what) in wrong.iter().filter(|(wrong, _)| *wrong) {
        let message = format!("dumped with another {what} than was pushed");
        findings.add(4, job.id, &[source.begun.i, at.i], message);
    }
}

fn results(facts: &HistoryFacts<'_>, job: &JobFacts<'_>, findings: &mut Findings) {
    let looked = job.gets.iter().filter_map(|look| Some((look.job?.result?, look.ended)));
    let taken = job.takes.iter().filter_map(|taking| Some((taking.result?, taking.ended?)));
    let dumped = facts.dump.and_then(|(_, at)| Some((job.stored?.result?, at)));
    for (result, at) in looked.chain(taken).chain(dumped) {
        if !was_reported(job, result, at) {
            let message = format!("its result was read at {} as {result}, never reported", at.i);
            findings.add(4, job.id, &[at.i], message);
        }
    }
}

/// Whether this result was reported before, by a report that may have been accepted.
pub(super) fn was_reported(job: &JobFacts<'_>, result: PayloadHash, at: HistoryMoment) -> bool {
    job.reports.iter().any(|report| report.result() == Some(result) && report.begun.is_before(&at))
}

fn edited(job: &JobFacts<'_>, source: &PushSource<'_>, at: HistoryMoment) -> bool {
    job.admin_may_apply(source.begun, at, |want| matches!(want, AdminAction::Edit { .. }))
}
