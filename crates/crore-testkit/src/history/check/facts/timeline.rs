//! First pass: turns events into moments, calls and events of nodes.

use std::collections::{BTreeMap, HashMap};

use super::call::{CallEnd, HistoryMoment, RecordedCall};
use super::crashes::{CrashHistory, NodeCrash, StoreFileDamage};
use super::{NodeMark, NodeMarkKind};
use crate::history::node::StoreDump;
use crate::history::{
    CALLER_LEFT, History, HistoryEvent, HistoryEventBody, NodeObservation, RecordedFault,
    RecordedOp, RecordedResponse,
};

/// The result of the first pass.
#[derive(Debug, Default)]
pub(super) struct Timeline<'h> {
    pub(super) calls: Vec<RecordedCall<'h>>,
    pub(super) memory: CrashHistory,
    pub(super) marks: Vec<NodeMark<'h>>,
    pub(super) dump: Option<(&'h StoreDump, HistoryMoment)>,
    pub(super) end: Option<HistoryMoment>,
    /// Malformed parts of the history.
    pub(super) faults: Vec<(u64, String)>,
    by_number: HashMap<u64, usize>,
    jumped: ClockJumps,
    settled: u64,
    up: BTreeMap<&'h str, bool>,
    /// Corruption of a node that was not opened since, and whether the node reported missing data.
    corrupted: BTreeMap<&'h str, (HistoryMoment, bool)>,
}

#[derive(Debug, Default)]
struct ClockJumps {
    forward: u64,
    back: i128,
}

impl<'h> Timeline<'h> {
    pub(super) fn new(history: &'h History) -> Self {
        let mut timeline = Self::default();
        for event in &history.events {
            let at = timeline.moment(event);
            timeline.record(event, at);
            timeline.end = Some(at);
        }
        timeline
    }

    fn moment(&mut self, event: &HistoryEvent) -> HistoryMoment {
        if self.end.is_some_and(|last| last.i >= event.i || last.t > event.t) {
            self.faults.push((event.i, "is out of order".to_owned()));
        }
        let (forward, back) = (self.jumped.forward, self.jumped.back);
        HistoryMoment {
            i: event.i,
            t: event.t,
            fast: event.t.saturating_add(forward),
            slow: i128::from(event.t) - back,
        }
    }

    fn record(&mut self, event: &'h HistoryEvent, at: HistoryMoment) {
        match &event.what {
            HistoryEventBody::Invoke { n, at: node, op } => {
                let index = self.calls.len();
                if self.by_number.insert(*n, index).is_some() {
                    self.faults.push((at.i, format!("begins call {n} again")));
                }
                let (p, node) = (&event.p, node.as_ref());
                self.calls.push(RecordedCall { p, at: node, op, begun: at, end: CallEnd::Open });
            }
            HistoryEventBody::Ok { n, now, r } => {
                self.close(*n, at, CallEnd::Ok { at, now: *now, r });
            }
            HistoryEventBody::Fail { n, .. } => self.close(*n, at, CallEnd::Fail(at)),
            HistoryEventBody::Info { n, why } if why == CALLER_LEFT => {
                self.close(*n, at, CallEnd::Left(at));
            }
            HistoryEventBody::Info { n, .. } => self.close(*n, at, CallEnd::Info(at)),
            HistoryEventBody::Fault { fault } => self.fault(&event.p, at, fault),
            HistoryEventBody::Node { node } => self.node(&event.p, at, node),
        }
    }

    fn close(&mut self, n: u64, at: HistoryMoment, end: CallEnd<'h>) {
        let Some(call) = self.by_number.get(&n).and_then(|index| self.calls.get_mut(*index)) else {
            self.faults.push((at.i, format!("ends call {n}, which did not begin")));
            return;
        };
        if call.ended().is_some() {
            self.faults.push((at.i, format!("ends call {n} again")));
            return;
        }
        if let CallEnd::Ok { r, .. } = end {
            if !matches_op(call.op, r) {
                self.faults.push((at.i, format!("is no response to call {n}")));
                return;
            }
            if r.is_durable() {
                self.settled = self.settled.max(call.begun.i);
            }
        }
        call.end = end;
    }

    fn fault(&mut self, node: &'h str, at: HistoryMoment, fault: &'h RecordedFault) {
        let mut mark = |what| self.marks.push(NodeMark { node, at, what });
        match fault {
            RecordedFault::Crash => self.crash(node, at, false),
            RecordedFault::PowerCut => self.crash(node, at, true),
            RecordedFault::SyncError => mark(NodeMarkKind::SyncError),
            RecordedFault::DiskFull => mark(NodeMarkKind::DiskFull),
            RecordedFault::DiskFreed => mark(NodeMarkKind::DiskFreed),
            RecordedFault::ClockJump { by } if *by > 0 => {
                let by = by.unsigned_abs().saturating_mul(1_000_000);
                self.jumped.forward = self.jumped.forward.saturating_add(by);
            }
            RecordedFault::ClockJump { by } => self.jumped.back -= i128::from(*by) * 1_000_000,
            RecordedFault::Corruption { .. } => {
                self.corrupted.insert(node, (at, false));
            }
        }
        if !matches!(
            fault,
            RecordedFault::Crash | RecordedFault::PowerCut | RecordedFault::Corruption { .. }
        ) {
            self.up.insert(node, true);
        }
    }

    fn crash(&mut self, node: &'h str, at: HistoryMoment, power: bool) {
        self.up.insert(node, false);
        self.memory.crashes.push(NodeCrash { at, power, settled: self.settled });
    }

    fn node(&mut self, node: &'h str, at: HistoryMoment, seen: &'h NodeObservation) {
        match seen {
            NodeObservation::Opened => {
                if self.up.get(node) == Some(&true) {
                    self.crash(node, at, false);
                }
                self.up.insert(node, true);
                self.marks.push(NodeMark { node, at, what: NodeMarkKind::Opened });
                if let Some((at, reported)) = self.corrupted.remove(node) {
                    self.memory.damages.push(StoreFileDamage { at, reported });
                }
            }
            NodeObservation::Refused { .. } => {
                self.corrupted.remove(node);
            }
            NodeObservation::Reported { .. } => {
                if let Some((_, reported)) = self.corrupted.get_mut(node) {
                    *reported = true;
                } else if let Some(damage) = self.memory.damages.last_mut() {
                    damage.reported = true;
                }
            }
            NodeObservation::Closed => {
                self.up.insert(node, false);
            }
            NodeObservation::Dump(dump) => self.dump = Some((dump, at)),
        }
    }
}

/// Whether a response matches the call.
fn matches_op(op: &RecordedOp, answer: &RecordedResponse) -> bool {
    match (op, answer) {
        (RecordedOp::Push { groups, items }, RecordedResponse::Pushed { groups: g, items: i }) => {
            (*groups, items.len()) == (g.len(), i.len())
        }
        (RecordedOp::Renew { leases }, RecordedResponse::Renewed(renewed)) => {
            leases.len() == renewed.len()
        }
        (RecordedOp::Define { entries }, RecordedResponse::Defined(written)) => {
            entries.len() == written.len()
        }
        (RecordedOp::Tick { items, fire, .. }, RecordedResponse::Ticked(ticked)) => {
            items.len() == fire.len() && ticked.as_ref().is_none_or(|t| t.len() == items.len())
        }
        (RecordedOp::Fetch { n, .. }, RecordedResponse::Fetched(granted)) => granted.len() <= *n,
        (RecordedOp::Report { .. }, RecordedResponse::Reported(_))
        | (RecordedOp::Admin { .. } | RecordedOp::Notice { .. }, RecordedResponse::Changed(_))
        | (RecordedOp::TakeResult { .. }, RecordedResponse::Result(_))
        | (RecordedOp::Get { .. }, RecordedResponse::Job(_))
        | (RecordedOp::List, RecordedResponse::Listed(_))
        | (RecordedOp::Counts, RecordedResponse::Counts(_)) => true,
        _ => false,
    }
}
