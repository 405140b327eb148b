//! **I17, a batch is all or nothing.** Of the items of one call that can only have become jobs (no
//! unique key, no group, nothing to wait for), if one was seen, every other is in the dump, was
//! handed out, or may rightly be gone: also one of which nobody has heard, if a fetch of which nobody
//! knows what it took may have had it, and its queue was told what to keep of ended jobs. This is about calls of which nobody knows what became, and
//! about stores that may lose what they answered; where a push was answered and must be there, a
//! missing job is I1. Follow-ups and the jobs of a tick are batches too. Says nothing without a dump.

use std::collections::BTreeMap;

use super::facts::definitions::Table;
use super::facts::{Facts, Fate, Source, Took};
use super::report::Findings;
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let Some((_, dumped)) = facts.dump else { return };
    let mut batches: BTreeMap<usize, Vec<&Source<'_>>> = BTreeMap::new();
    for source in &facts.sources.all {
        let item = source.item;
        let plain = item.unique.is_none() && item.group.is_none() && item.after.is_empty();
        if plain && matches!(source.fate, Fate::New(_) | Fate::Unknown) {
            batches.entry(source.call).or_default().push(source);
        }
    }
    for sources in batches.values().filter(|sources| sources.len() > 1) {
        let there = |source: &&&Source<'_>| {
            let job = source.id.and_then(|id| facts.jobs.get(&id));
            job.is_some_and(|job| job.stored.is_some())
        };
        let missing = |source: &&&Source<'_>| {
            let gone = source.id.map_or_else(
                || may_be_unheard(facts, source),
                |id| {
                    facts.jobs.get(&id).is_none_or(|job| {
                        job.stored.is_some()
                            || !job.grants.is_empty()
                            || facts.may_be_gone(job, dumped)
                    })
                },
            );
            let must = source.answered.is_some_and(|at| facts.holds(at, dumped));
            !gone && !must
        };
        if let (Some(one), Some(other)) = (sources.iter().find(there), sources.iter().find(missing))
        {
            let message = format!(
                "of one batch, begun at {}, item {} is there and item {} is not",
                one.begun.i, one.item.seq, other.item.seq
            );
            findings.add(17, one.id, &[one.begun.i, dumped.i], message);
        }
    }
}

/// Whether a job may have come and gone without anybody hearing of it: taken by a fetch of which
/// nobody knows what it took, ended when its lease lapsed, and removed by its queue's settings.
fn may_be_unheard(facts: &Facts<'_>, source: &Source<'_>) -> bool {
    let queue = &source.item.queue;
    let unheard = |op: &Op| matches!(op, Op::Fetch { queues, .. } if queues.contains(queue));
    !facts.definitions.of(Table::Queues, queue).is_empty()
        && facts.calls.iter().any(|call| call.took() == Took::Perhaps && unheard(call.op))
}
