//! **I4, what was pushed is what is handed out.** Every delivery, look and dump of a job shows the
//! payload that was pushed; deliveries and the dump also its queue and priority, unless it may have
//! been edited, and its lease; a job that was pushed for an instant is not said to be due before it;
//! the dump also its kind and unique key. Every result that was read or dumped is one that somebody
//! reported for this job.

use super::facts::{Facts, Job, Moment, Source};
use super::report::Findings;
use crate::history::Hash;
use crate::history::op::{Want, When};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for (job, source) in facts.sourced() {
        deliveries(job, source, findings);
        looks(job, source, findings);
        dumped(facts, job, source, findings);
        results(facts, job, findings);
    }
}

fn deliveries(job: &Job<'_>, source: &Source<'_>, findings: &mut Findings) {
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
        let retried = job.revived(source.begun, grant.ended);
        if let When::At(time) = item.due
            && granted.due < time
            && !retried
        {
            differs("due", format!("{:?}", granted.due), format!("{time:?}"));
        }
    }
}

fn looks(job: &Job<'_>, source: &Source<'_>, findings: &mut Findings) {
    for look in &job.looks {
        if let Some(shown) = look.job
            && shown.payload != source.item.payload
        {
            let at = look.ended.i;
            let message = format!("seen at {at} with payload {}", shown.payload);
            findings.add(4, job.id, &[source.begun.i, at], message);
        }
    }
}

fn dumped(facts: &Facts<'_>, job: &Job<'_>, source: &Source<'_>, findings: &mut Findings) {
    let (Some(stored), Some((_, at))) = (job.stored, facts.dump) else { return };
    let item = source.item;
    let key = item.unique.as_ref().map(|unique| &unique.key);
    let place = (&stored.queue, stored.priority) != (&item.queue, item.priority);
    let wrong = [
        (stored.payload != item.payload, "payload"),
        (place && !edited(job, source, at), "queue or priority"),
        (stored.kind != item.kind, "kind"),
        (stored.unique.as_ref() != key, "unique key"),
    ];
    for (_, what) in wrong.iter().filter(|(wrong, _)| *wrong) {
        let message = format!("dumped with another {what} than was pushed");
        findings.add(4, job.id, &[source.begun.i, at.i], message);
    }
}

fn results(facts: &Facts<'_>, job: &Job<'_>, findings: &mut Findings) {
    let looked = job.looks.iter().filter_map(|look| Some((look.job?.result?, look.ended)));
    let taken = job.takings.iter().filter_map(|taking| Some((taking.result?, taking.ended?)));
    let dumped = facts.dump.and_then(|(_, at)| Some((job.stored?.result?, at)));
    for (result, at) in looked.chain(taken).chain(dumped) {
        if !was_reported(job, result, at) {
            let message =
                format!("its result was read at {} as {result}: nobody reported it", at.i);
            findings.add(4, job.id, &[at.i], message);
        }
    }
}

/// Whether somebody reported this result before, and was not told that the report failed.
pub(super) fn was_reported(job: &Job<'_>, result: Hash, at: Moment) -> bool {
    job.reports.iter().any(|filed| filed.result() == Some(result) && filed.begun.is_before(&at))
}

fn edited(job: &Job<'_>, source: &Source<'_>, at: Moment) -> bool {
    job.meddled(source.begun, at, |want| matches!(want, Want::Edit { .. }))
}
