//! **I2, no phantom.** Every job that was handed out, looked at, dumped or named as a duplicate came
//! from an item that somebody asked to push: it is the number that was answered, or, where nobody
//! was told, it carries the payload of an item whose fate is unknown.
//!
//! **I3, a refused push has no effect.** No job carries the payload of an item whose push failed, or
//! that was answered as broken or as a duplicate. Follow-ups of a report that did not count are I18,
//! jobs of a tick that did not count I11.

use crore_core::JobId;

use super::facts::{Facts, Fate, Moment, Origin, Source};
use super::report::{Counters, Findings};
use crate::history::Hash;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings, counters: &mut Counters) {
    for (id, payload, at) in &facts.strays {
        let sources: Vec<_> =
            payload.iter().flat_map(|hash| facts.sources.with_payload(*hash)).collect();
        judge(*id, *payload, *at, &sources, findings);
        counters.unexpected += 1;
    }
    duplicates_name_what_exists(facts, findings);
}

fn judge(
    id: JobId,
    payload: Option<Hash>,
    at: Moment,
    sources: &[&Source<'_>],
    findings: &mut Findings,
) {
    let refused = |source: &&&Source<'_>| matches!(source.fate, Fate::Refused | Fate::Duplicate(_));
    if let Some(source) = sources.iter().find(refused) {
        let promise = match source.origin {
            Origin::Push => 3,
            Origin::Child(..) => 18,
            Origin::Tick(..) => 11,
        };
        let begun = source.begun.i;
        let message = format!("seen at {}, but {begun}, which asked for it, was refused", at.i);
        findings.add(promise, id, &[begun, at.i], message);
    } else if let Some(source) = sources.first() {
        let promise = match source.origin {
            Origin::Push => 2,
            Origin::Child(..) => 18,
            Origin::Tick(..) => 11,
        };
        let (begun, other) = (source.begun.i, source.id);
        let message = format!("seen at {}, but what {begun} asked for is job {other:?}", at.i);
        findings.add(promise, id, &[begun, at.i], message);
    } else {
        let message = format!("seen at {} with payload {payload:?}, which nobody pushed", at.i);
        findings.add(2, id, &[at.i], message);
    }
}

/// A duplicate names a job that somebody pushed, or may have: one whose fate is unknown, with the
/// same key.
fn duplicates_name_what_exists(facts: &Facts<'_>, findings: &mut Findings) {
    for source in &facts.sources.all {
        let (Fate::Duplicate(id), Some(at)) = (source.fate, source.answered) else { continue };
        if facts.sources.of(id).is_some() || facts.reused > 0 {
            continue;
        }
        let key =
            |source: &Source<'_>| source.item.unique.as_ref().map(|unique| unique.key.clone());
        let may_be = |other: &Source<'_>| {
            other.fate == Fate::Unknown && other.id.is_none() && key(other) == key(source)
        };
        if !facts.sources.all.iter().any(may_be) {
            let message = format!("named at {} as the holder of a key, but nobody pushed it", at.i);
            findings.add(2, id, &[source.begun.i, at.i], message);
        }
    }
}
