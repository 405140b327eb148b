//! **I2, no phantom.** Every job that was delivered, read, dumped or named as a duplicate came from an item
//! that a caller asked to push: its id was acknowledged, or, where the response is unknown, it carries the
//! payload of such an item.
//!
//! **I3, a refused push has no effect.** No job carries the payload of an item whose push failed, or that was
//! answered as broken or as a duplicate. Follow-ups of a report that did not count violate I18, jobs of
//! a tick that did not count violate I11.

use crore_core::JobId;

use super::facts::{HistoryFacts, HistoryMoment, PushFate, PushOrigin, PushSource};
use super::report::{Counters, Findings};
use crate::history::PayloadHash;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings, counters: &mut Counters) {
    for (id, payload, at) in &facts.strays {
        let sources: Vec<_> =
            payload.iter().flat_map(|hash| facts.sources.with_payload(*hash)).collect();
        report_stray(*id, *payload, *at, &sources, findings);
        counters.unexpected += 1;
    }
    check_duplicates(facts, findings);
}

fn report_stray(
    id: JobId,
    payload: Option<PayloadHash>,
    at: HistoryMoment,
    sources: &[&PushSource<'_>],
    findings: &mut Findings,
) {
    let refused = |source: &&&PushSource<'_>| {
        matches!(source.fate, PushFate::Refused | PushFate::Duplicate(_))
    };
    if let Some(source) = sources.iter().find(refused) {
        let promise = match source.origin {
            PushOrigin::Push => 3,
            PushOrigin::Child(..) | PushOrigin::Expiry(_) => 18,
            PushOrigin::Tick(..) => 11,
        };
        let begun = source.begun.i;
        let message = format!("seen at {}, but its call {begun} was refused", at.i);
        findings.add(promise, id, &[begun, at.i], message);
    } else if let Some(source) = sources.first() {
        let promise = match source.origin {
            PushOrigin::Push => 2,
            PushOrigin::Child(..) | PushOrigin::Expiry(_) => 18,
            PushOrigin::Tick(..) => 11,
        };
        let (begun, other) = (source.begun.i, source.id);
        let message = format!("seen at {}, but its call {begun} made job {other:?}", at.i);
        findings.add(promise, id, &[begun, at.i], message);
    } else {
        let message = format!("seen at {} with payload {payload:?}, never pushed", at.i);
        findings.add(2, id, &[at.i], message);
    }
}

/// A duplicate names a job that was pushed, or may have been: an item with an unknown result and the same
/// key.
fn check_duplicates(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for source in &facts.sources.all {
        let (PushFate::Duplicate(id), Some(at)) = (source.fate, source.answered) else { continue };
        if facts.sources.of(id).is_some() || facts.reused > 0 {
            continue;
        }
        let key =
            |source: &PushSource<'_>| source.item.unique.as_ref().map(|unique| unique.key.clone());
        let may_be = |other: &PushSource<'_>| {
            other.fate == PushFate::Unknown && other.id.is_none() && key(other) == key(source)
        };
        if !facts.sources.all.iter().any(may_be) {
            let message = format!("named at {} as the holder of a key, but never pushed", at.i);
            findings.add(2, id, &[source.begun.i, at.i], message);
        }
    }
}
