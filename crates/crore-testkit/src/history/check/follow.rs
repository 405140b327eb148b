//! **I18, follow-ups come exactly once.** A follow-up is known by its parent and its place among the
//! parent's follow-ups. No two jobs share both, unless the parent may have been revived by hand, and
//! the dump says of each job whose follow-up it is.
//! After a report that made its job done, each of its follow-ups is there, or may rightly be gone;
//! what a report pushed that did not count is nowhere (see `phantom`).

use std::collections::BTreeMap;

use crore_core::JobId;

use super::facts::{Facts, Fate, Origin, Source, Took};
use super::lost::is_lost;
use super::report::Findings;
use crate::history::Op;
use crate::history::op::Outcome;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    once_in_the_dump(facts, findings);
    let Some((_, dumped)) = facts.dump else { return };
    for source in &facts.sources.all {
        let Origin::Child(parent, place) = source.origin else { continue };
        if is_missing(facts, source) {
            let message = format!("follow-up {place} of job {parent} is not there");
            findings.add(18, source.id, &[source.begun.i, dumped.i], message);
        }
    }
    for (job, source) in facts.sourced() {
        let said = match source.origin {
            Origin::Child(parent, place) => Some((parent, place)),
            Origin::Push | Origin::Tick(..) => None,
        };
        if let Some(stored) = job.stored
            && stored.parent != said
        {
            let message =
                format!("dumped as the follow-up {:?}, and it is {said:?}", stored.parent);
            findings.add(18, job.id, &[source.begun.i, dumped.i], message);
        }
    }
}

fn once_in_the_dump(facts: &Facts<'_>, findings: &mut Findings) {
    let Some((dump, at)) = facts.dump else { return };
    let mut seen = BTreeMap::new();
    for stored in &dump.jobs {
        if let Some(parent) = stored.parent
            && facts.sources.of(stored.id).is_some()
            && let Some(other) = seen.insert(parent, stored.id)
            // A job that is revived by hand may come to an end, and to its follow-ups, a second time.
            && !is_revived(facts, parent.0)
        {
            let message = format!("this and job {other} are both follow-up {parent:?}");
            findings.add(18, stored.id, &[at.i], message);
        }
    }
}

fn is_revived(facts: &Facts<'_>, id: JobId) -> bool {
    let (job, source) = (facts.jobs.get(&id), facts.sources.of(id));
    job.zip(source).is_some_and(|(job, source)| job.revived(source.begun, facts.end))
}

fn is_missing(facts: &Facts<'_>, source: &Source<'_>) -> bool {
    let Some((_, dumped)) = facts.dump else { return false };
    let job = source.id.and_then(|id| facts.jobs.get(&id));
    match (source.fate, job) {
        (Fate::New(_), Some(job)) => is_lost(facts, job, source, dumped),
        // Its caller was not told its number, but it must be somewhere.
        (Fate::Unknown, None) => {
            let call = &facts.calls[source.call];
            let done = matches!(call.op, Op::Report { outcome: Outcome::Done { .. }, .. });
            let item = source.item;
            let plain = item.unique.is_none() && item.group.is_none() && item.after.is_empty();
            let holds = call.ended().is_some_and(|at| facts.holds(at, dumped));
            done && plain && holds && call.took() == Took::Yes
        }
        _ => false,
    }
}
