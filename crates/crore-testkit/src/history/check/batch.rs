//! **I17, a batch is all or nothing.** Of the items of one call that can only have become jobs (no
//! unique key, no group, nothing to wait for), if one was seen, every other is in the dump, was
//! handed out, or may rightly be gone. This is about calls of which nobody knows what became, and
//! about stores that may lose what they answered; where a push was answered and must be there, a
//! missing job is I1. A harness in which jobs can end that no caller has heard of (taken by a fetch
//! whose answer was lost, and lapsed) lists them when it learns of them. Follow-ups and the jobs of a tick are batches too. Says nothing without a dump.

use std::collections::BTreeMap;

use super::facts::{Facts, Fate, Source};
use super::report::Findings;

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
            let gone = source.id.is_some_and(|id| {
                facts.jobs.get(&id).is_none_or(|job| {
                    job.stored.is_some() || !job.grants.is_empty() || facts.may_be_gone(job, dumped)
                })
            });
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
