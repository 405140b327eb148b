//! **I18, follow-ups come exactly once.** A follow-up is identified by its parent and its index among the
//! parent's follow-ups. No two jobs share both, unless an operator may have retried the parent, and the dump
//! names the parent of each job. After a report that made its job done, each of its follow-ups exists or may
//! legitimately be gone. Follow-ups of a report that did not count do not exist (see `phantom`).

use std::collections::BTreeMap;

use crore_core::JobId;

use super::facts::{EffectCertainty, HistoryFacts, PushFate, PushOrigin, PushSource};
use super::lost::is_lost;
use super::report::Findings;
use crate::history::RecordedOp;
use crate::history::op::RecordedOutcome;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    check_unique_in_dump(facts, findings);
    let Some((_, dumped)) = facts.dump else { return };
    for source in &facts.sources.all {
        let PushOrigin::Child(parent, index) = source.origin else { continue };
        if is_missing(facts, source) {
            let message = format!("follow-up {index} of job {parent} is missing");
            findings.add(18, source.id, &[source.begun.i, dumped.i], message);
        }
    }
    for (job, source) in facts.sourced() {
        let expected = match source.origin {
            PushOrigin::Child(parent, index) => Some((parent, index)),
            PushOrigin::Push | PushOrigin::Tick(..) => None,
            PushOrigin::Expiry(parent) => facts.sources.all[parent].id.map(|parent| (parent, 0)),
        };
        if let Some(stored) = job.stored
            && stored.parent != expected
        {
            let message =
                format!("dumped as the follow-up {:?}, but it is {expected:?}", stored.parent);
            findings.add(18, job.id, &[source.begun.i, dumped.i], message);
        }
    }
}

fn check_unique_in_dump(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let Some((dump, at)) = facts.dump else { return };
    let mut seen = BTreeMap::new();
    for stored in &dump.jobs {
        if let Some(parent) = stored.parent
            && facts.sources.of(stored.id).is_some()
            && let Some(other) = seen.insert(parent, stored.id)
            // A job that an operator retries may end, and push its follow-ups, a second time.
            && !is_revived(facts, parent.0)
        {
            let message = format!("this and job {other} are both follow-up {parent:?}");
            findings.add(18, stored.id, &[at.i], message);
        }
    }
}

fn is_revived(facts: &HistoryFacts<'_>, id: JobId) -> bool {
    let (job, source) = (facts.jobs.get(&id), facts.sources.of(id));
    job.zip(source).is_some_and(|(job, source)| job.may_be_revived(source.begun, facts.end))
}

fn is_missing(facts: &HistoryFacts<'_>, source: &PushSource<'_>) -> bool {
    let Some((_, dumped)) = facts.dump else { return false };
    let job = source.id.and_then(|id| facts.jobs.get(&id));
    match (source.fate, job) {
        (PushFate::New(_), Some(job)) => is_lost(facts, job, source, dumped),
        // The caller did not receive its id, but the job must exist.
        (PushFate::Unknown, None) => {
            let call = &facts.calls[source.call];
            let done =
                matches!(call.op, RecordedOp::Report { outcome: RecordedOutcome::Done { .. }, .. });
            let item = source.item;
            let plain = item.unique.is_none() && item.group.is_none() && item.after.is_empty();
            let holds = call.ended().is_some_and(|at| facts.write_still_holds(at, dumped));
            done && plain && holds && call.had_effect() == EffectCertainty::Yes
        }
        _ => false,
    }
}
