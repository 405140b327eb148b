//! **I17, a batch is atomic.** Considers the items of one call that can only have become jobs (no unique key,
//! no group, no dependency): if one was seen, every other is in the dump, was delivered, or may legitimately
//! be gone. This concerns calls with an unknown end, and stores that may lose acknowledged writes; where a
//! push was acknowledged and must be durable, a missing job is I1. A harness in which jobs can end unnoticed
//! (taken by a fetch whose response was lost, then lapsed) records a list when it learns of them. Follow-ups
//! and the jobs of a tick are batches too. Needs a dump.

use std::collections::BTreeMap;

use super::facts::{HistoryFacts, PushFate, PushOrigin, PushSource};
use super::report::Findings;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let Some((_, dumped)) = facts.dump else { return };
    let mut batches: BTreeMap<usize, Vec<&PushSource<'_>>> = BTreeMap::new();
    for source in &facts.sources.all {
        let item = source.item;
        let plain = item.unique.is_none() && item.group.is_none() && item.after.is_empty();
        let is_pushed_later = matches!(source.origin, PushOrigin::Expiry(_));
        if plain && !is_pushed_later && matches!(source.fate, PushFate::New(_) | PushFate::Unknown)
        {
            batches.entry(source.call).or_default().push(source);
        }
    }
    for sources in batches.values().filter(|sources| sources.len() > 1) {
        let there = |source: &&&PushSource<'_>| {
            let job = source.id.and_then(|id| facts.jobs.get(&id));
            job.is_some_and(|job| job.stored.is_some())
        };
        let missing = |source: &&&PushSource<'_>| {
            let gone = source.id.is_some_and(|id| {
                facts.jobs.get(&id).is_none_or(|job| {
                    job.stored.is_some() || !job.grants.is_empty() || facts.may_be_gone(job, dumped)
                })
            });
            let must = source.answered.is_some_and(|at| facts.write_still_holds(at, dumped));
            !gone && !must
        };
        if let (Some(one), Some(other)) = (sources.iter().find(there), sources.iter().find(missing))
        {
            let message = format!(
                "the batch begun at {} is torn: item {} exists, item {} does not",
                one.begun.i, one.item.seq, other.item.seq
            );
            findings.add(17, one.id, &[one.begun.i, dumped.i], message);
        }
    }
}
