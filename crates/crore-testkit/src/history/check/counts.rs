//! **I19, conservation.** No job is in the dump twice; the store's own counts in the dump equal those of the
//! dumped jobs, by queue, kind and state; and a count requested after the last push, report and tick had
//! ended is not less than the dump's total, since jobs can only be removed from then on. Missing and surplus
//! jobs are I1 and I2.

use std::collections::BTreeMap;

use crore_core::{Name, State};

use super::facts::HistoryFacts;
use super::report::Findings;
use crate::history::response::RecordedCount;
use crate::history::{RecordedOp, RecordedResponse};

type CountsByKind<'h> = BTreeMap<(&'h Name, &'h Name, State), u64>;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let Some((dump, at)) = facts.dump else { return };
    let mut there = CountsByKind::new();
    let mut ids = BTreeMap::new();
    for stored in &dump.jobs {
        *there.entry((&stored.queue, &stored.kind, stored.state)).or_default() += 1;
        if ids.insert(stored.id, ()).is_some() {
            findings.add(19, stored.id, &[at.i], "it is in the dump twice");
        }
    }
    compare(&there, &dump.counts, at.i, findings);
    // Upkeep moves jobs between states without a recorded call, so only the sum of later counts is compared.
    for (counts, asked) in counts_after_last_push(facts) {
        let counted: u64 = counts.iter().map(|count| count.n).sum();
        let total = dump.jobs.len() as u64;
        if counted < total {
            let message = format!("{counted} were counted at {asked}, but {total} exist later");
            findings.add(19, None, &[asked, at.i], message);
        }
    }
}

fn compare(there: &CountsByKind<'_>, counts: &[RecordedCount], at: u64, findings: &mut Findings) {
    let mut counted = CountsByKind::new();
    for count in counts.iter().filter(|count| count.n > 0) {
        *counted.entry((&count.queue, &count.kind, count.state)).or_default() += count.n;
    }
    let keys: std::collections::BTreeSet<_> = there.keys().chain(counted.keys()).collect();
    for key in keys {
        let (is, says) = (there.get(key).unwrap_or(&0), counted.get(key).unwrap_or(&0));
        if is != says {
            let message = format!("{is} of {key:?} exist, but {says} are counted");
            findings.add(19, None, &[at], message);
        }
    }
}

/// Counts that were answered when no more pushes could happen.
fn counts_after_last_push<'h>(facts: &HistoryFacts<'h>) -> Vec<(&'h [RecordedCount], u64)> {
    let pushes = |op: &RecordedOp| {
        matches!(op, RecordedOp::Push { .. } | RecordedOp::Tick { .. } | RecordedOp::Report { .. })
    };
    let last = facts.calls.iter().filter(|call| pushes(call.op));
    let last = last.map(|call| call.ended().map_or(u64::MAX, |at| at.i)).max().unwrap_or(0);
    let quiet = facts.calls.iter().filter(|call| call.begun.i > last);
    let answered = quiet.filter_map(|call| match call.response()? {
        (RecordedResponse::Counts(counts), at) => Some((counts.as_slice(), at.i)),
        _ => None,
    });
    answered.collect()
}
