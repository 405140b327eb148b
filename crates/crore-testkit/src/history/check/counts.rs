//! **I19, conservation.** No job is twice in the dump; the store's own counts in the dump are those of
//! the dumped jobs, by queue, kind and state; and a count that was asked for after the last push,
//! report and tick had ended is not less than what the dump has, since jobs can only be removed then.
//! That nothing is missing or too much is I1 and I2.

use std::collections::BTreeMap;

use crore_core::{Name, State};

use super::facts::Facts;
use super::report::Findings;
use crate::history::answer::Count;
use crate::history::{Answer, Op};

type Tally<'h> = BTreeMap<(&'h Name, &'h Name, State), u64>;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let Some((dump, at)) = facts.dump else { return };
    let mut there = Tally::new();
    let mut ids = BTreeMap::new();
    for stored in &dump.jobs {
        *there.entry((&stored.queue, &stored.kind, stored.state)).or_default() += 1;
        if ids.insert(stored.id, ()).is_some() {
            findings.add(19, stored.id, &[at.i], "it is twice in the dump");
        }
    }
    compare(&there, &dump.counts, at.i, findings);
    // Upkeep moves jobs between states unseen, so later counts are held to the sum alone.
    for (counts, asked) in quiet_counts(facts) {
        let counted: u64 = counts.iter().map(|count| count.n).sum();
        let total = dump.jobs.len() as u64;
        if counted < total {
            let message = format!("{counted} were counted at {asked}, and {total} are there later");
            findings.add(19, None, &[asked, at.i], message);
        }
    }
}

fn compare(there: &Tally<'_>, counts: &[Count], at: u64, findings: &mut Findings) {
    let mut counted = Tally::new();
    for count in counts.iter().filter(|count| count.n > 0) {
        *counted.entry((&count.queue, &count.kind, count.state)).or_default() += count.n;
    }
    let keys: std::collections::BTreeSet<_> = there.keys().chain(counted.keys()).collect();
    for key in keys {
        let (is, says) = (there.get(key).unwrap_or(&0), counted.get(key).unwrap_or(&0));
        if is != says {
            let message = format!("{is} of {key:?} are there, and {says} are counted");
            findings.add(19, None, &[at], message);
        }
    }
}

/// Counts that were answered when nothing could be pushed any more.
fn quiet_counts<'h>(facts: &Facts<'h>) -> Vec<(&'h [Count], u64)> {
    let pushes = |op: &Op| matches!(op, Op::Push { .. } | Op::Tick { .. } | Op::Report { .. });
    let last = facts.calls.iter().filter(|call| pushes(call.op));
    let last = last.map(|call| call.ended().map_or(u64::MAX, |at| at.i)).max().unwrap_or(0);
    let quiet = facts.calls.iter().filter(|call| call.begun.i > last);
    let answered = quiet.filter_map(|call| match call.answer()? {
        (Answer::Counts(counts), at) => Some((counts.as_slice(), at.i)),
        _ => None,
    });
    answered.collect()
}
