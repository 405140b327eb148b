//! Heads of lanes with fair keys: one entry for each share, in the order of turns.

use std::collections::{BTreeSet, HashMap};

use crore_core::fair::Turn;
use crore_core::{JobId, Time};

use super::super::arena::Arena;
use super::super::sorted_run::SortedRun;
use super::LaneHead;
use super::shares::ShareRow;

/// The head of a lane and the turn of its share; its order is the claim order within a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TurnHead {
    priority: i32,
    turn: Turn,
    at: Time,
    id: JobId,
    pub(super) lane: u32,
    share: u32,
}

impl TurnHead {
    fn new(head: LaneHead, share: u32, turn: Turn) -> Self {
        let LaneHead { priority, at, id, lane } = head;
        Self { priority, turn, at, id, lane, share }
    }

    /// A lane without a share has always turn 0.
    pub(super) fn plain(head: LaneHead) -> Self {
        Self::new(head, u32::MAX, 0)
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
    shares: HashMap<u32, EnteredShare>,
    order: SortedRun<TurnHead>,
}

#[derive(Debug)]
struct EnteredShare {
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
    pub(crate) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Adds the head of a lane, whose share has this turn now.
    pub(super) fn insert(&mut self, share: u32, head: LaneHead, turn: Turn) {
        let Some(entered) = self.shares.get_mut(&share) else {
            self.shares.insert(share, EnteredShare { turn, heads: ShareHeads::One(head) });
            self.order.insert(TurnHead::new(head, share, turn));
            return;
        };
        let before = entered.heads.first();
        entered.heads.insert(head);
        if before.is_none_or(|before| head < before) {
            if let Some(before) = before {
                self.order.remove(TurnHead::new(before, share, entered.turn));
            }
            entered.turn = turn;
            self.order.insert(TurnHead::new(head, share, turn));
        }
    }

    /// Removes the head of a lane.
    pub(super) fn remove(&mut self, share: u32, head: LaneHead) {
        let Some(entered) = self.shares.get_mut(&share) else { return };
        let (before, turn) = (entered.heads.first(), entered.turn);
        let is_left = entered.heads.remove(head);
        let next = entered.heads.first().filter(|_| is_left);
        if !is_left {
            self.shares.remove(&share);
        }
        if before == Some(head) {
            self.order.remove(TurnHead::new(head, share, turn));
            if let Some(next) = next {
                self.order.insert(TurnHead::new(next, share, turn));
            }
        }
    }

    /// The best head by the current turns.
    pub(super) fn first(&mut self, shares: &Arena<ShareRow>) -> Option<TurnHead> {
        loop {
            let first = self.order.first()?;
            let turn = shares.at(first.share).turn;
            if first.turn == turn {
                return Some(first);
            }
            self.order.remove(first);
            if let Some(entered) = self.shares.get_mut(&first.share) {
                entered.turn = turn;
            }
            self.order.insert(TurnHead { turn, ..first });
        }
    }
}
