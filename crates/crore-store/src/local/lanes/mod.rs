//! Queues, partitions and lanes: the index in which a claim finds jobs.
//!
//! A **lane** is (queue, kind, required version, limit keys, fair key): an ordered list of jobs that are equivalent to a
//! claim. A **partition** is the part of a queue with one kind and required version: its lanes, and one sorted run per state
//! (except ready jobs, which are in the lanes, and running jobs, which are kept per queue). A lane
//! is **open** while its head is among the heads of its queue (and, if it has limits, of its
//! partition), so a claim looks at one entry however many lanes and jobs there are. A lane without
//! a permit is **parked** at the bucket that refused, and costs nothing until that bucket has a
//! permit again.
//!
//! Lanes with a fair key are ordered by the turn of their **share** and are kept apart: the open ones in
//! their partition, one entry for each share, and one entry for each such partition in its queue.
//!
//! Partitions with a required version are not part of the order of their queue: only a claim that names a version
//! which satisfies the requirement looks at them.
//!
//! Invariant: while a bucket has a permit and lanes without a fair key of a partition are parked there, the
//! best of these lanes is open, or a better lane of the same partition that needs the same bucket is. For
//! lanes with a fair key this would not do, because the open lane loses its position when its share is
//! claimed elsewhere: the bucket itself is entered at the position of its best lane (it is **armed**).

mod fair_heads;
mod held_back;
mod parking;
mod prune;
mod ready;
mod reserve;
mod rows;
mod shares;
mod sources;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crore_core::fair::FairKey;
use crore_core::id::JobMap;
use crore_core::limit::LimitKey;
use crore_core::version::VersionRequirement;
use crore_core::{JobId, Name, Spec, State, Time};

use super::arena::Arena;
use super::index_position::IndexPosition;
use super::key_index::KeyIndex;
use super::permits::Permits;
use super::sorted_run::SortedRun;
use crate::bug::planted;
pub(crate) use fair_heads::{FairHeads, TurnHead};
use ready::ReadyJobs;
pub(crate) use rows::QueueRow;
use rows::{LaneLimits, LaneRow, PartitionRow};
use shares::{NO_SHARE, Shares};
use sources::ClaimSources;

/// The first job of a lane. Its order is the claim order of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneHead {
    pub(crate) priority: i32,
    pub(crate) at: Time,
    pub(crate) id: JobId,
    pub(crate) lane: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    numbers: HashMap<Name, u32>,
    /// A queue stays until it is pruned, which needs it to be empty and not paused.
    pub(crate) queues: Arena<QueueRow>,
    pub(crate) partitions: Arena<PartitionRow>,
    pub(crate) lanes: Arena<LaneRow>,
    /// Lanes with limits, by partition, share and limit keys.
    limited: HashMap<(u32, u32, Vec<LimitKey>), u32>,
    /// Lanes without limits of shares with several lanes, by partition and share.
    shared: HashMap<(u32, u32), u32>,
    shares: Shares,
    pub(crate) permits: Permits,
    /// Costs of the ready jobs that take something else than one permit from each of their limits.
    costs: JobMap<Arc<[u32]>>,
    /// Queues with new claimable jobs.
    woken: BTreeSet<u32>,
}

/// Identity of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey {
    pub(crate) queue: Name,
    pub(crate) kind: Name,
    pub(crate) limits: Vec<LimitKey>,
    pub(crate) fair: Option<FairKey>,
    pub(crate) version: Option<VersionRequirement>,
}

/// Identity of a lane, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneKeyRef<'a> {
    pub(crate) queue: &'a Name,
    pub(crate) kind: &'a Name,
    pub(crate) limits: &'a [LimitKey],
    pub(crate) fair: Option<&'a FairKey>,
    pub(crate) version: Option<&'a VersionRequirement>,
}

impl LaneKey {
    pub(crate) fn borrowed(&self) -> LaneKeyRef<'_> {
        let Self { queue, kind, limits, fair, version } = self;
        LaneKeyRef { queue, kind, limits, fair: fair.as_ref(), version: version.as_ref() }
    }
}

impl<'a> From<&'a Spec> for LaneKeyRef<'a> {
    fn from(spec: &'a Spec) -> Self {
        let Spec { queue, kind, limits, fair, worker_version, .. } = spec;
        LaneKeyRef { queue, kind, limits, fair: fair.as_ref(), version: worker_version.as_deref() }
    }
}

impl Lanes {
    pub(crate) fn queue(&self, name: &Name) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn queue_or_new(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let queue = QueueRow {
            name: name.clone(),
            partitions: BTreeMap::new(),
            versioned: BTreeMap::new(),
            paused: false,
            heads: SortedRun::default(),
            running: SortedRun::default(),
            timers: BTreeSet::new(),
            fair: BTreeSet::new(),
            fair_share: None,
            virtual_time: 0,
            shares: 0,
        };
        let number = self.queues.add(queue);
        self.numbers.insert(name.clone(), number);
        number
    }

    fn partition_or_new(
        &mut self,
        queue: u32,
        kind: &Name,
        version: Option<&VersionRequirement>,
    ) -> u32 {
        let row = self.queues.at(queue);
        let existing = match version {
            None => row.partitions.get(kind),
            Some(version) => row.versioned.get(kind).and_then(|all| all.get(version)),
        };
        if let Some(number) = existing {
            return *number;
        }
        let number = self.partitions.add(PartitionRow {
            queue,
            kind: kind.clone(),
            version: version.copied(),
            lanes: BTreeSet::new(),
            plain: None,
            heads: BTreeSet::new(),
            fair: FairHeads::default(),
            armed: BTreeSet::new(),
            entered: None,
            ready: 0,
            hidden: BTreeSet::new(),
            running: 0,
            keys: KeyIndex::default(),
            waiting: SortedRun::default(),
            scheduled: SortedRun::default(),
            done: SortedRun::default(),
            dead: SortedRun::default(),
            cancelled: SortedRun::default(),
        });
        let row = self.queues.at_mut(queue);
        match version {
            None => row.partitions.insert(kind.clone(), number),
            Some(version) => {
                row.versioned.entry(kind.clone()).or_default().insert(*version, number)
            }
        };
        number
    }

    /// Returns the lane of a new job, and counts the job.
    pub(crate) fn lane_for(&mut self, spec: &Spec) -> u32 {
        let lane = self.lane_or_new(spec.into());
        self.lanes.at_mut(lane).jobs += 1;
        lane
    }

    pub(crate) fn lane_or_new(&mut self, key: LaneKeyRef<'_>) -> u32 {
        let LaneKeyRef { queue, kind, limits, fair, version } = key;
        let queue = self.queue_or_new(queue);
        let partition = self.partition_or_new(queue, kind, version);
        let share = self.share_or_new(queue, fair);
        let existing = match (limits.is_empty(), share) {
            (true, NO_SHARE) => self.partitions.at(partition).plain,
            (true, share) => self.unlimited_lane(partition, share),
            (false, share) => self.limited.get(&(partition, share, limits.to_vec())).copied(),
        };
        existing.unwrap_or_else(|| self.new_lane(partition, limits, share))
    }

    /// Queue and kind of a lane.
    pub(crate) fn names(&self, lane: u32) -> (Name, Name) {
        let lane = self.lanes.at(lane);
        (self.queues.at(lane.queue).name.clone(), self.partitions.at(lane.partition).kind.clone())
    }

    /// Whether a job of the same partition has keys to search by.
    pub(crate) fn has_keys(&self, lane: u32) -> bool {
        !self.partitions.at(self.lanes.at(lane).partition).keys.is_empty()
    }

    /// Whether the jobs of a lane need permits.
    pub(crate) fn is_limited(&self, lane: u32) -> bool {
        self.lanes.at(lane).limited.is_some()
    }

    /// Counts a restored job in its lane; if it is running, it holds its permits.
    pub(crate) fn restore(&mut self, position: IndexPosition) {
        self.lanes.at_mut(position.lane).jobs += 1;
        if position.state == State::Running
            && let Some(buckets) = self.lanes.at(position.lane).buckets()
        {
            self.permits.restore_held(&buckets);
        }
    }

    fn new_lane(&mut self, partition: u32, limits: &[LimitKey], share: u32) -> u32 {
        let limited = (!limits.is_empty()).then(|| {
            let buckets = limits.iter().map(|key| self.permits.add_lane(key)).collect();
            Box::new(LaneLimits {
                limits: limits.to_vec(),
                buckets,
                parked: None,
                is_reserved: false,
            })
        });
        let number = self.lanes.add(LaneRow {
            partition,
            queue: self.partitions.at(partition).queue,
            share,
            is_versioned: self.partitions.at(partition).version.is_some(),
            limited,
            ready: ReadyJobs::default(),
            jobs: 0,
        });
        match (limits.is_empty(), share) {
            (true, NO_SHARE) => self.partitions.at_mut(partition).plain = Some(number),
            (true, _) => {}
            (false, share) => {
                self.limited.insert((partition, share, limits.to_vec()), number);
            }
        }
        self.add_to_share(number);
        self.partitions.at_mut(partition).lanes.insert(number);
        number
    }

    /// Subtracts a job from the count of its lane.
    pub(crate) fn remove_job(&mut self, lane: u32) {
        let lane = self.lanes.at_mut(lane);
        lane.jobs = lane.jobs.saturating_sub(1);
    }

    /// Returns the queues with new claimable jobs since the last call.
    pub(crate) fn take_woken(&mut self) -> Vec<Name> {
        let woken = std::mem::take(&mut self.woken);
        woken.iter().map(|queue| self.queues.at(*queue).name.clone()).collect()
    }

    /// Pauses or resumes a queue.
    pub(crate) fn pause(&mut self, name: &Name, paused: bool) {
        let number = self.queue_or_new(name);
        let queue = self.queues.at_mut(number);
        if queue.paused && !paused {
            self.woken.insert(number);
        }
        queue.paused = paused;
    }

    /// Adds a job at the position of its state.
    pub(crate) fn insert(&mut self, position: IndexPosition) {
        let lane = self.lanes.at_mut(position.lane);
        let partition = self.partitions.at_mut(lane.partition);
        match position.state {
            State::Ready => {
                partition.ready += 1;
                let old = lane.head(position.lane);
                lane.ready.insert(position.priority, position.slot);
                self.woken.insert(lane.queue);
                self.refresh(position.lane, old);
            }
            State::Running => {
                partition.running += 1;
                self.queues.at_mut(lane.queue).running.insert(position.slot);
            }
            state => {
                if let Some(run) = partition.run_mut(state) {
                    run.insert(position.slot);
                }
            }
        }
    }

    /// Removes a job from the position of its state.
    pub(crate) fn remove(&mut self, position: IndexPosition) {
        let lane = self.lanes.at_mut(position.lane);
        let partition = self.partitions.at_mut(lane.partition);
        match position.state {
            State::Ready => {
                partition.ready -= 1;
                let old = lane.head(position.lane);
                lane.ready.remove(position.priority, position.slot);
                self.refresh(position.lane, old);
            }
            State::Running => {
                partition.running -= 1;
                self.queues.at_mut(lane.queue).running.remove(position.slot);
            }
            state => {
                if let Some(run) = partition.run_mut(state) {
                    run.remove(position.slot);
                }
            }
        }
    }

    /// Takes a ready job out of its lane, so that no claim finds it. It still counts as ready.
    pub(crate) fn hide(&mut self, position: IndexPosition) {
        let lane = self.lanes.at_mut(position.lane);
        let old = lane.head(position.lane);
        lane.ready.remove(position.priority, position.slot);
        let partition = self.partitions.at_mut(lane.partition);
        if !planted!("bug-46") {
            partition.hidden.insert((position.priority, position.slot));
        }
        self.refresh(position.lane, old);
    }

    /// Removes a hidden job.
    pub(crate) fn remove_hidden(&mut self, position: IndexPosition) {
        let partition = self.lanes.at(position.lane).partition;
        let partition = self.partitions.at_mut(partition);
        partition.ready -= 1;
        partition.hidden.remove(&(position.priority, position.slot));
    }

    /// Returns the best head with its permits taken, and parks lanes without a permit. The caller
    /// moves the job before the next call.
    pub(crate) fn take(&mut self, sources: &mut ClaimSources, now: Time) -> Option<LaneHead> {
        loop {
            let head = self.best(sources)?;
            let Some(buckets) = self.lanes.at(head.lane).buckets() else {
                self.advance_turn(head.lane);
                return Some(head);
            };
            let costs = self.costs.get(&head.id).map(|costs| &**costs);
            match self.permits.take(&buckets, (head, costs), now) {
                Ok(()) => {
                    self.retry_reserved(&buckets, head);
                    self.advance_turn(head.lane);
                    return Some(head);
                }
                Err(refusal) => {
                    self.park(head, refusal, now);
                    if refusal.is_reserved {
                        self.note_reserved(&buckets, head);
                    }
                }
            }
        }
    }

    /// Opens a lane that is not open, with its head. A sorted run is not a set: opening twice would add the head
    /// twice.
    fn open(&mut self, head: LaneHead) {
        let row = self.lanes.at(head.lane);
        if row.share != NO_SHARE {
            return self.open_share(head);
        }
        if !row.is_versioned || planted!("bug-53") {
            self.queues.at_mut(row.queue).heads.insert(head);
        }
        if row.limited.is_some() {
            self.partitions.at_mut(row.partition).heads.insert(head);
        }
    }

    /// Closes an open lane with this head.
    fn close(&mut self, head: LaneHead) {
        let row = self.lanes.at(head.lane);
        if row.share != NO_SHARE {
            let share = self.shares.rows.at(row.share);
            return self.partitions.at_mut(row.partition).fair.remove(head, (row.share, share));
        }
        if !row.is_versioned || planted!("bug-53") {
            self.queues.at_mut(row.queue).heads.remove(head);
        }
        if row.limited.is_some() {
            self.partitions.at_mut(row.partition).heads.remove(&head);
        }
    }

    /// Updates the sets of heads after a lane's ready jobs have changed; `old` was its head before.
    fn refresh(&mut self, number: u32, old: Option<LaneHead>) {
        let row = self.lanes.at(number);
        let head = row.head(number);
        if head == old {
            return;
        }
        if row.share == NO_SHARE && row.limited.is_none() && !row.is_versioned {
            return self.queues.at_mut(row.queue).heads.replace(old, head);
        }
        self.refresh_heads(number, (old, head));
        self.drop_reservations(number);
    }

    fn refresh_heads(&mut self, number: u32, (old, head): (Option<LaneHead>, Option<LaneHead>)) {
        let lane = self.lanes.at(number);
        let (parked, limited) = (lane.parked(), lane.limited.is_some());
        let shared = lane.share != NO_SHARE;
        let better = head.is_some_and(|head| old.is_none_or(|old| head < old));
        match parked {
            // Only a better head reopens a parked lane without a share; with a worse one the lane stays parked.
            Some(bucket) if head.is_some() && !better && !shared => {
                self.unpark(number, old);
                self.set_parked(number, bucket);
            }
            Some(_) => {
                self.unpark(number, old);
                head.into_iter().for_each(|head| self.open(head));
            }
            None => {
                old.into_iter().for_each(|old| self.close(old));
                head.into_iter().for_each(|head| self.open(head));
                if limited && !better {
                    self.open_best_parked(number);
                }
            }
        }
    }
}
