//! The first pass: events become moments, calls and what happened to nodes.

use std::collections::{BTreeMap, HashMap};

use super::call::{Call, End, Moment};
use super::memory::{Crash, Damage, Memory};
use super::{Mark, Marked};
use crate::history::node::Dump;
use crate::history::{Answer, Event, Fault, History, LEFT, Node, Op, What};

/// What the first pass gives.
#[derive(Debug, Default)]
pub(super) struct Timeline<'h> {
    pub(super) calls: Vec<Call<'h>>,
    pub(super) memory: Memory,
    pub(super) marks: Vec<Mark<'h>>,
    pub(super) dump: Option<(&'h Dump, Moment)>,
    pub(super) end: Option<Moment>,
    /// What is wrong with the history itself.
    pub(super) faults: Vec<(u64, String)>,
    by_number: HashMap<u64, usize>,
    jumped: Jumped,
    settled: u64,
    up: BTreeMap<&'h str, bool>,
    /// Corruptions of a node that was not opened since, and whether it said that it lost something.
    corrupted: BTreeMap<&'h str, (Moment, bool)>,
}

#[derive(Debug, Default)]
struct Jumped {
    forward: u64,
    back: i128,
}

impl<'h> Timeline<'h> {
    pub(super) fn new(history: &'h History) -> Self {
        let mut timeline = Self::default();
        for event in &history.events {
            let at = timeline.moment(event);
            timeline.see(event, at);
            timeline.end = Some(at);
        }
        timeline
    }

    fn moment(&mut self, event: &Event) -> Moment {
        if self.end.is_some_and(|last| last.i >= event.i || last.t > event.t) {
            self.faults.push((event.i, "is out of order".to_owned()));
        }
        let (forward, back) = (self.jumped.forward, self.jumped.back);
        Moment {
            i: event.i,
            t: event.t,
            fast: event.t.saturating_add(forward),
            slow: i128::from(event.t) - back,
        }
    }

    fn see(&mut self, event: &'h Event, at: Moment) {
        match &event.what {
            What::Invoke { n, at: node, op } => {
                let place = self.calls.len();
                if self.by_number.insert(*n, place).is_some() {
                    self.faults.push((at.i, format!("begins call {n} again")));
                }
                let (p, node) = (&event.p, node.as_ref());
                self.calls.push(Call { p, at: node, op, begun: at, end: End::Open });
            }
            What::Ok { n, now, r } => self.close(*n, at, End::Ok { at, now: *now, r }),
            What::Fail { n, .. } => self.close(*n, at, End::Fail(at)),
            What::Info { n, why } if why == LEFT => self.close(*n, at, End::Left(at)),
            What::Info { n, .. } => self.close(*n, at, End::Info(at)),
            What::Fault { fault } => self.fault(&event.p, at, fault),
            What::Node { node } => self.node(&event.p, at, node),
        }
    }

    fn close(&mut self, n: u64, at: Moment, end: End<'h>) {
        let Some(call) = self.by_number.get(&n).and_then(|place| self.calls.get_mut(*place)) else {
            self.faults.push((at.i, format!("ends call {n}, which did not begin")));
            return;
        };
        if call.ended().is_some() {
            self.faults.push((at.i, format!("ends call {n} again")));
            return;
        }
        if let End::Ok { r, .. } = end {
            if !fits(call.op, r) {
                self.faults.push((at.i, format!("answers something else than call {n} asked")));
                return;
            }
            if r.is_durable() {
                self.settled = self.settled.max(call.begun.i);
            }
        }
        call.end = end;
    }

    fn fault(&mut self, node: &'h str, at: Moment, fault: &'h Fault) {
        let mut mark = |what| self.marks.push(Mark { node, at, what });
        match fault {
            Fault::Crash => self.crash(node, at, false),
            Fault::PowerCut => self.crash(node, at, true),
            Fault::SyncError => mark(Marked::SyncError),
            Fault::DiskFull => mark(Marked::DiskFull),
            Fault::DiskFreed => mark(Marked::DiskFreed),
            Fault::ClockJump { by } if *by > 0 => {
                let by = by.unsigned_abs().saturating_mul(1_000_000);
                self.jumped.forward = self.jumped.forward.saturating_add(by);
            }
            Fault::ClockJump { by } => self.jumped.back -= i128::from(*by) * 1_000_000,
            Fault::Corruption { .. } => {
                self.corrupted.insert(node, (at, false));
            }
        }
        if !matches!(fault, Fault::Crash | Fault::PowerCut | Fault::Corruption { .. }) {
            self.up.insert(node, true);
        }
    }

    fn crash(&mut self, node: &'h str, at: Moment, power: bool) {
        self.up.insert(node, false);
        self.memory.crashes.push(Crash { at, power, settled: self.settled });
    }

    fn node(&mut self, node: &'h str, at: Moment, seen: &'h Node) {
        match seen {
            Node::Opened => {
                if self.up.get(node) == Some(&true) {
                    self.crash(node, at, false);
                }
                self.up.insert(node, true);
                self.marks.push(Mark { node, at, what: Marked::Opened });
                if let Some((at, reported)) = self.corrupted.remove(node) {
                    self.memory.damages.push(Damage { at, reported });
                }
            }
            Node::Refused { .. } => {
                self.corrupted.remove(node);
            }
            Node::Reported { .. } => {
                if let Some((_, reported)) = self.corrupted.get_mut(node) {
                    *reported = true;
                } else if let Some(damage) = self.memory.damages.last_mut() {
                    damage.reported = true;
                }
            }
            Node::Closed => {
                self.up.insert(node, false);
            }
            Node::Dump(dump) => self.dump = Some((dump, at)),
        }
    }
}

/// Whether an answer is one to this call.
fn fits(op: &Op, answer: &Answer) -> bool {
    match (op, answer) {
        (Op::Push { groups, items }, Answer::Pushed { groups: g, items: i }) => {
            (*groups, items.len()) == (g.len(), i.len())
        }
        (Op::Renew { leases }, Answer::Renewed(renewed)) => leases.len() == renewed.len(),
        (Op::Define { entries }, Answer::Defined(written)) => entries.len() == written.len(),
        (Op::Tick { items, fire, .. }, Answer::Ticked(ticked)) => {
            items.len() == fire.len() && ticked.as_ref().is_none_or(|t| t.len() == items.len())
        }
        (Op::Fetch { n, .. }, Answer::Fetched(granted)) => granted.len() <= *n,
        (Op::Report { .. }, Answer::Reported(_))
        | (Op::Admin { .. } | Op::Notice { .. }, Answer::Changed(_))
        | (Op::TakeResult { .. }, Answer::Result(_))
        | (Op::Get { .. }, Answer::Job(_))
        | (Op::List, Answer::Listed(_))
        | (Op::Counts, Answer::Counts(_)) => true,
        _ => false,
    }
}
