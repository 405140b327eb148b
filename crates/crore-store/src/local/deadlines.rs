//! Deadlines of jobs that have not started, and the jobs that have missed theirs.
//!
//! A claim takes ready jobs whose deadline is over out of their lanes, so that it cannot find them. This moves them in
//! the index alone: the record changes when the engine decides about the job, and until then views show it as ready.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::{JobId, Time};

use super::LocalIndex;
use super::index_position::IndexPosition;
use super::lanes::LaneHead;
use super::records::JobRecords;
use super::sorted_run::RunSlot;
use crate::bug::planted;

/// Maximum number of jobs that one claim takes out of their lanes; other calls wait meanwhile.
const MAX_HIDDEN_PER_CLAIM: usize = 10_000;

/// Deadlines of waiting, scheduled and ready jobs. Each key is a deadline and its job.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Jobs that claims may find, with the position of a ready job in its lane.
    open: BTreeMap<RunSlot, Option<LaneHead>>,
    /// Jobs whose deadline was over at a claim; ready ones are hidden in their partition.
    hidden: BTreeSet<RunSlot>,
}

impl Deadlines {
    pub(super) fn insert(&mut self, deadline: Time, position: &IndexPosition) {
        let slot = RunSlot { at: deadline, id: position.slot.id };
        self.open.insert(slot, position.lane_head());
    }

    /// Removes a deadline; returns whether its job was hidden.
    pub(super) fn remove(&mut self, deadline: Time, id: JobId) -> bool {
        let slot = RunSlot { at: deadline, id };
        self.open.remove(&slot).is_none() && self.hidden.remove(&slot)
    }

    /// The deadline of a job that is not hidden. Examines all of them.
    pub(super) fn find(&self, id: JobId) -> Option<Time> {
        self.open.keys().find(|slot| slot.id == id).map(|slot| slot.at)
    }

    /// Hides the next job whose deadline is over, and returns its position if it is ready.
    fn hide_next(&mut self, now: Time) -> Option<(JobId, Option<LaneHead>)> {
        let next = self.open.first_entry().filter(|next| next.key().at <= now)?;
        let (slot, head) = next.remove_entry();
        self.hidden.insert(slot);
        Some((slot.id, head))
    }

    /// Up to `n` jobs whose deadline is over, by deadline, and the next deadline after them.
    pub(super) fn expired(&self, n: usize, now: Time) -> (Vec<RunSlot>, Option<Time>) {
        let more = n.saturating_add(1);
        let mut slots: Vec<RunSlot> = self.hidden.iter().take(more).copied().collect();
        slots.extend(self.open.keys().take(more).copied());
        slots.sort_unstable();
        let over = slots
            .iter()
            .take(n)
            .take_while(|slot| slot.at <= now && !(planted!("bug-44") && slot.at == now));
        let over = over.count();
        let next = slots.get(over).map(|slot| slot.at);
        slots.truncate(over);
        (slots, next)
    }
}

impl<R: JobRecords> LocalIndex<R> {
    /// Takes ready jobs whose deadline is over out of their lanes; returns whether this was all of them.
    pub(super) fn hide_expired(&mut self, now: Time) -> bool {
        if planted!("bug-42") {
            return true;
        }
        for _ in 0..MAX_HIDDEN_PER_CLAIM {
            match self.deadlines.hide_next(now) {
                Some((_, Some(head))) => self.lanes.hide(IndexPosition::ready(head)),
                Some((_, None)) => {}
                None => return true,
            }
        }
        false
    }
}
