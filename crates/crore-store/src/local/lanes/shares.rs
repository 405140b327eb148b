//! Shares of queues: the turn and the weight of each fair key, and the lanes of shared queues.
//!
//! Turns are kept in memory only. A share is identified by a keyed 64-bit hash of its queue and key: two keys with
//! the same hash would take their turns as one, which breaks no promise but theirs.

use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use crore_core::Name;
use crore_core::fair::{DEFAULT_WEIGHT, FairKey, FairShare, MAX_WEIGHT, Turn, after_claim};
use hashbrown::HashTable;

use super::super::arena::Arena;
use super::fair_heads::TurnHead;
use super::{LaneHead, Lanes};
use crate::bug::planted;

/// The share of a lane without a fair key.
pub(super) const NO_SHARE: u32 = u32::MAX;

/// The share of one fair key in its queue. There may be a million: a row takes 40 bytes.
#[derive(Debug)]
pub(crate) struct ShareRow {
    pub(super) turn: Turn,
    /// The turn in the entry of the only lane.
    pub(super) entered: Turn,
    hash: u64,
    queue: u32,
    /// Number of lanes with this key.
    lanes: u32,
    /// The lane, while there has been only one.
    pub(super) only_lane: Option<LaneNumber>,
    weight: NonZeroU16,
}

/// The number of a lane, plus one, so that an option takes no more space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneNumber(NonZeroU32);

impl LaneNumber {
    fn new(lane: u32) -> Option<Self> {
        lane.checked_add(1).and_then(NonZeroU32::new).map(Self)
    }

    const fn lane(self) -> u32 {
        self.0.get() - 1
    }
}

/// Shares by number.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    pub(super) rows: Arena<ShareRow>,
    /// Numbers by the hash of their row.
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl Shares {
    fn find(&self, hash: u64) -> Option<u32> {
        self.numbers.find(hash, |number| self.rows.at(*number).hash == hash).copied()
    }

    fn add(&mut self, row: ShareRow) -> u32 {
        let hash = row.hash;
        let number = self.rows.add(row);
        let rows = &self.rows;
        self.numbers.insert_unique(hash, number, |number| rows.at(*number).hash);
        number
    }

    fn remove(&mut self, number: u32) {
        let hash = self.rows.at(number).hash;
        if let Ok(entry) = self.numbers.find_entry(hash, |other| *other == number) {
            entry.remove();
        }
        self.rows.remove(number);
    }
}

impl Lanes {
    fn share_hash(&self, queue: u32, key: &str) -> u64 {
        self.shares.hasher.hash_one((queue, key))
    }

    pub(super) fn share_or_new(&mut self, queue: u32, key: Option<&FairKey>) -> u32 {
        let Some(key) = key else { return NO_SHARE };
        let hash = self.share_hash(queue, key.as_str());
        if let Some(number) = self.shares.find(hash) {
            return number;
        }
        let row = self.queues.at_mut(queue);
        row.shares += 1;
        let weight =
            row.fair_share.as_ref().map_or(DEFAULT_WEIGHT, |share| share.weight(key.as_str()));
        let (turn, entered, lanes, only_lane) = (0, 0, 0, None);
        let weight = stored_weight(weight);
        self.shares.add(ShareRow { turn, entered, hash, queue, lanes, only_lane, weight })
    }

    /// The weight of a share.
    pub(super) fn share_weight(&self, share: u32) -> u32 {
        u32::from(self.shares.rows.at(share).weight.get())
    }

    /// The lane without limits of a share in a partition.
    pub(super) fn unlimited_lane(&self, partition: u32, share: u32) -> Option<u32> {
        let Some(only) = self.shares.rows.at(share).only_lane else {
            return self.shared.get(&(partition, share)).copied();
        };
        let row = self.lanes.at(only.lane());
        (row.partition == partition && row.limited.is_none()).then_some(only.lane())
    }

    /// Adds a new lane to its share.
    pub(super) fn add_to_share(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        if row.share == NO_SHARE {
            return;
        }
        let (number, partition, limited) = (row.share, row.partition, row.limited.is_some());
        let share = self.shares.rows.at_mut(number);
        share.lanes += 1;
        if share.lanes == 1 {
            share.only_lane = LaneNumber::new(lane);
            return;
        }
        if let Some(only) = share.only_lane {
            self.group_only_lane(only.lane());
        }
        if !limited {
            self.shared.insert((partition, number), lane);
        }
    }

    /// Moves the only lane of a share to where the lanes of a share with several are found.
    fn group_only_lane(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let (number, partition) = (row.share, row.partition);
        let share = self.shares.rows.at_mut(number);
        share.only_lane = None;
        if row.limited.is_none() {
            self.shared.insert((partition, number), lane);
        }
        let Some(head) = row.head(lane) else { return };
        let heads = match row.parked() {
            None => Some(&mut self.partitions.at_mut(partition).fair),
            Some(bucket) => {
                let parked = self.permits.buckets.at_mut(bucket).parked.get_mut(&partition);
                parked.and_then(|parked| parked.fair.as_deref_mut())
            }
        };
        if let Some(heads) = heads {
            heads.group(head, (number, share));
        }
    }

    /// Forgets a lane of a share, and the share if it was the last.
    pub(super) fn remove_from_share(&mut self, share: u32) {
        if share == NO_SHARE {
            return;
        }
        let row = self.shares.rows.at_mut(share);
        row.lanes -= 1;
        if row.lanes == 0 {
            let queue = row.queue;
            self.shares.remove(share);
            self.queues.at_mut(queue).shares -= 1;
        }
    }

    /// Sets the weights of a queue's keys. They apply from the next claim of each key on. Only keys that the settings
    /// name, before or now, have another weight than the default, so the other shares of the queue are not visited.
    pub(crate) fn set_fair_share(&mut self, name: &Name, share: Option<Arc<FairShare>>) {
        let queue = self.queue_or_new(name);
        if self.queues.at(queue).fair_share == share {
            return;
        }
        let before = self.queues.at_mut(queue).fair_share.take();
        for key in before.iter().flat_map(|before| before.weights.keys()) {
            self.set_weight(queue, key, DEFAULT_WEIGHT);
        }
        for (key, weight) in share.iter().flat_map(|share| &share.weights) {
            self.set_weight(queue, key, *weight);
        }
        self.queues.at_mut(queue).fair_share = share;
    }

    fn set_weight(&mut self, queue: u32, key: &str, weight: u32) {
        if let Some(number) = self.shares.find(self.share_hash(queue, key)) {
            self.shares.rows.at_mut(number).weight = stored_weight(weight);
        }
    }

    /// Moves the share of a claimed lane to its next turn.
    pub(super) fn advance_turn(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        if row.share == NO_SHARE {
            return;
        }
        let queue = self.queues.at_mut(row.queue);
        let share = self.shares.rows.at_mut(row.share);
        let weight = if planted!("bug-40") { 1 } else { u32::from(share.weight.get()) };
        let virtual_time = if planted!("bug-41") { 0 } else { queue.virtual_time };
        (queue.virtual_time, share.turn) = after_claim(share.turn, virtual_time, weight);
    }

    /// Enters the head of a lane with a share.
    pub(super) fn open_share(&mut self, head: LaneHead) {
        let row = self.lanes.at(head.lane);
        let partition = self.partitions.at_mut(row.partition);
        partition.fair.insert(head, (row.share, self.shares.rows.at_mut(row.share)));
        if let Some(first) = partition.fair.first(&self.lanes, &mut self.shares.rows) {
            self.raise(row.partition, first);
        }
    }

    /// Moves a partition forward in the order of its queue if it has a better head now. Worse heads are noticed when
    /// the partition comes up. A partition with a required version is not in this order.
    fn raise(&mut self, partition: u32, head: TurnHead) {
        if self.partitions.at(partition).version.is_some() && !planted!("bug-55") {
            return;
        }
        if self.partitions.at(partition).entered.is_none_or(|entered| head < entered) {
            self.enter(partition, Some(head));
        }
    }

    /// Sets the position of a partition in the order of its queue.
    pub(super) fn enter(&mut self, partition: u32, head: Option<TurnHead>) {
        let row = self.partitions.at_mut(partition);
        let entered = std::mem::replace(&mut row.entered, head);
        let fair = &mut self.queues.at_mut(row.queue).fair;
        if let Some(entered) = entered {
            fair.remove(&(entered, partition));
        }
        fair.extend(head.map(|head| (head, partition)));
    }

    /// The best head among the shares of a queue.
    pub(super) fn first_of_queue(&mut self, queue: u32) -> Option<TurnHead> {
        loop {
            let (entered, partition) = *self.queues.at(queue).fair.first()?;
            let first = self.first_of_partition(partition);
            if first == Some(entered) {
                return first;
            }
            self.enter(partition, first);
        }
    }

    /// The best head among the shares of a partition. A waiting bucket that comes first opens its best lane.
    pub(super) fn first_of_partition(&mut self, partition: u32) -> Option<TurnHead> {
        loop {
            let row = self.partitions.at_mut(partition);
            let first = row.fair.first(&self.lanes, &mut self.shares.rows);
            match row.armed.first().copied() {
                Some((armed, bucket)) if first.is_none_or(|first| armed < first) => {
                    self.open_from_armed(bucket, partition, armed);
                }
                _ => return first,
            }
        }
    }

    /// Opens the best lane of an armed bucket, which comes up at `armed`, or corrects its position.
    fn open_from_armed(&mut self, bucket: u32, partition: u32, armed: TurnHead) {
        let Some(first) = self.first_parked_share(bucket, partition) else {
            self.disarm(bucket, partition);
            return;
        };
        if first <= armed {
            self.open_parked(first.lane);
        }
        self.arm(bucket, partition);
    }

    /// Lets the lanes with shares that are parked at a bucket take part in the order of their partition, by the best
    /// of them: the bucket may have a permit. A refusal [disarms](Self::disarm) the bucket.
    pub(super) fn arm(&mut self, bucket: u32, partition: u32) {
        let Some(first) = self.first_parked_share(bucket, partition) else { return };
        let Some(parked) = self.permits.buckets.at_mut(bucket).parked.get_mut(&partition) else {
            return;
        };
        let before = parked.armed.replace(first);
        let armed = &mut self.partitions.at_mut(partition).armed;
        if let Some(before) = before {
            armed.remove(&(before, bucket));
        }
        armed.insert((first, bucket));
        self.raise(partition, first);
    }

    pub(super) fn disarm(&mut self, bucket: u32, partition: u32) {
        let parked = self.permits.buckets.at_mut(bucket).parked.get_mut(&partition);
        if let Some(armed) = parked.and_then(|parked| parked.armed.take()) {
            self.partitions.at_mut(partition).armed.remove(&(armed, bucket));
        }
    }

    pub(super) fn first_parked_share(&mut self, bucket: u32, partition: u32) -> Option<TurnHead> {
        let parked = self.permits.buckets.at_mut(bucket).parked.get_mut(&partition)?;
        parked.fair.as_mut()?.first(&self.lanes, &mut self.shares.rows)
    }
}

/// A weight, between 1 and [`MAX_WEIGHT`].
fn stored_weight(weight: u32) -> NonZeroU16 {
    let weight = u16::try_from(weight.min(MAX_WEIGHT)).unwrap_or(u16::MAX);
    NonZeroU16::new(weight).unwrap_or(NonZeroU16::MIN)
}
