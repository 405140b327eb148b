//! Heads of lanes with fair keys: one entry for each share, in the order of turns.

use std::collections::{BTreeSet, HashMap};

use crore_core::fair::Turn;
use crore_core::{JobId, Time};

use super::super::arena::Arena;
use super::super::sorted_run::SortedRun;
use super::LaneHead;
use super::rows::LaneRow;
use super::shares::ShareRow;

/// The head of a lane and the turn of its share; its order is the claim order within a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TurnHead {
    priority: i32,
    turn: Turn,
    at: Time,
    id: JobId,
    pub(super) lane: u32,
}

impl TurnHead {
    const fn new(head: LaneHead, turn: Turn) -> Self {
        let LaneHead { priority, at, id, lane } = head;
        Self { priority, turn, at, id, lane }
    }

    /// A lane without a share has always turn 0.
    pub(super) const fn plain(head: LaneHead) -> Self {
        Self::new(head, 0)
    }

    pub(super) const fn lane_head(self) -> LaneHead {
        LaneHead { priority: self.priority, at: self.at, id: self.id, lane: self.lane }
    }
}

/// Heads of lanes, grouped by share. A claim changes the turn of all lanes of its share, however many there are:
/// only the best lane of each share is in the order, with the share's turn when it was entered. Turns only grow, so
/// an outdated entry comes up too early and is then corrected.
#[derive(Debug, Default)]
pub(crate) struct FairHeads {
    order: SortedRun<TurnHead>,
    /// Shares that have, or had, several lanes. A share with one lane has the turn of its entry in its row.
    groups: HashMap<u32, ShareGroup>,
}

#[derive(Debug)]
struct ShareGroup {
    /// The turn in the share's entry of the order.
    turn: Turn,
    heads: ShareHeads,
}

/// The heads of a share's lanes. Most shares have one lane.
#[derive(Debug)]
enum ShareHeads {
    One(LaneHead),
    Many(BTreeSet<LaneHead>),
}

impl ShareHeads {
    fn first(&self) -> Option<LaneHead> {
        match self {
            Self::One(head) => Some(*head),
            Self::Many(heads) => heads.first().copied(),
        }
    }

    fn lanes(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Self::One(head) => (Some(*head), None),
            Self::Many(heads) => (None, Some(heads)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied()).map(|head| head.lane)
    }

    fn insert(&mut self, head: LaneHead) {
        match self {
            Self::One(one) if *one == head => {}
            Self::One(one) => *self = Self::Many([*one, head].into()),
            Self::Many(heads) => {
                heads.insert(head);
            }
        }
    }

    /// Removes a head; `false`: none is left.
    fn remove(&mut self, head: LaneHead) -> bool {
        match self {
            Self::One(one) => *one != head,
            Self::Many(heads) => {
                heads.remove(&head);
                !heads.is_empty()
            }
        }
    }
}

impl FairHeads {
    pub(crate) const fn is_empty(&self) -> bool {
        self.order.len() == 0
    }

    /// The lanes, in no particular order; `share_of` returns the share of a lane.
    pub(super) fn lanes(&self, share_of: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
        let alone = self.order.iter_after(None).map(|head| head.lane);
        let alone = alone.filter(move |lane| !self.groups.contains_key(&share_of(*lane)));
        let grouped = self.groups.values().flat_map(|group| group.heads.lanes());
        alone.chain(grouped)
    }

    /// Adds the head of a lane of a share.
    pub(super) fn insert(&mut self, head: LaneHead, (number, share): (u32, &mut ShareRow)) {
        let turn = share.turn;
        if share.only_lane.is_some() {
            share.entered = turn;
            self.order.insert(TurnHead::new(head, turn));
            return;
        }
        let Some(group) = self.groups.get_mut(&number) else {
            self.groups.insert(number, ShareGroup { turn, heads: ShareHeads::One(head) });
            self.order.insert(TurnHead::new(head, turn));
            return;
        };
        let before = group.heads.first();
        group.heads.insert(head);
        if before.is_none_or(|before| head < before) {
            if let Some(before) = before {
                self.order.remove(TurnHead::new(before, group.turn));
            }
            group.turn = turn;
            self.order.insert(TurnHead::new(head, turn));
        }
    }

    /// Removes the head of a lane of a share.
    pub(super) fn remove(&mut self, head: LaneHead, (number, share): (u32, &ShareRow)) {
        if share.only_lane.is_some() {
            self.order.remove(TurnHead::new(head, share.entered));
            return;
        }
        let Some(group) = self.groups.get_mut(&number) else { return };
        let (before, turn) = (group.heads.first(), group.turn);
        let is_left = group.heads.remove(head);
        let next = group.heads.first().filter(|_| is_left);
        if !is_left {
            self.groups.remove(&number);
        }
        if before == Some(head) {
            self.order.remove(TurnHead::new(head, turn));
            if let Some(next) = next {
                self.order.insert(TurnHead::new(next, turn));
            }
        }
    }

    /// Turns the entry of a share's only lane into a group: the share gets another lane.
    pub(super) fn group(&mut self, head: LaneHead, (number, share): (u32, &ShareRow)) {
        let group = ShareGroup { turn: share.entered, heads: ShareHeads::One(head) };
        self.groups.insert(number, group);
    }

    /// The best head by the current turns.
    pub(super) fn first(
        &mut self,
        lanes: &Arena<LaneRow>,
        shares: &mut Arena<ShareRow>,
    ) -> Option<TurnHead> {
        loop {
            let first = self.order.first()?;
            let number = lanes.at(first.lane).share;
            let share = shares.at_mut(number);
            let turn = share.turn;
            if first.turn == turn {
                return Some(first);
            }
            self.order.remove(first);
            match self.groups.get_mut(&number) {
                Some(group) => group.turn = turn,
                None => share.entered = turn,
            }
            self.order.insert(TurnHead { turn, ..first });
        }
    }
}
