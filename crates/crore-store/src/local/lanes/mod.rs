//! Queues, partitions and lanes: the index in which a claim finds jobs.
//!
//! A **lane** is (queue, kind, limit keys): an ordered list of jobs that are equivalent to a claim.
//! A **partition** is the part of a queue with one kind: its lanes, and one sorted run per state
//! (except ready jobs, which are in the lanes, and running jobs, which are kept per queue). A lane
//! is **open** while its head is among the heads of its queue (and, if it has limits, of its
//! partition), so a claim looks at one entry however many lanes and jobs there are. A lane without
//! a permit is **parked** at the bucket that refused, and costs nothing until that bucket has a
//! permit again.
//!
//! Invariant: while a bucket has a permit and lanes of a partition are parked there, the best of
//! these lanes is open, or a better lane of the same partition that needs the same bucket is.

mod parking;
mod prune;
mod ready;
mod rows;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use crore_core::limit::LimitKey;
use crore_core::{JobId, Name, Spec, State, Time};

use super::arena::Arena;
use super::index_position::IndexPosition;
use super::permits::Permits;
use super::sorted_run::SortedRun;
use ready::ReadyJobs;
use rows::{LaneLimits, LaneRow, PartitionRow, QueueRow};

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
    limited: HashMap<(u32, Vec<LimitKey>), u32>,
    pub(crate) permits: Permits,
    /// Queues with new claimable jobs.
    woken: BTreeSet<u32>,
}

/// A source of jobs for a claim: a queue, or one kind of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimSource {
    Queue(u32),
    Partition(u32),
}

/// All sources of a claim.
#[derive(Debug)]
pub(crate) enum ClaimSources {
    One(ClaimSource),
    /// The head of each source, best first.
    Merged {
        heads: BinaryHeap<Reverse<(LaneHead, ClaimSource)>>,
        /// The source taken from last; its next head is not in `heads` yet.
        drawn: Option<ClaimSource>,
    },
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
            paused: false,
            heads: SortedRun::default(),
            running: SortedRun::default(),
            timers: BTreeSet::new(),
        };
        let number = self.queues.add(queue);
        self.numbers.insert(name.clone(), number);
        number
    }

    fn partition_or_new(&mut self, queue: u32, kind: &Name) -> u32 {
        if let Some(number) = self.queues.at(queue).partitions.get(kind) {
            return *number;
        }
        let number = self.partitions.add(PartitionRow {
            queue,
            kind: kind.clone(),
            lanes: BTreeSet::new(),
            plain: None,
            heads: BTreeSet::new(),
            ready: 0,
            running: 0,
            waiting: SortedRun::default(),
            scheduled: SortedRun::default(),
            done: SortedRun::default(),
            dead: SortedRun::default(),
            cancelled: SortedRun::default(),
        });
        self.queues.at_mut(queue).partitions.insert(kind.clone(), number);
        number
    }

    /// Returns the lane of a new job, and counts the job.
    pub(crate) fn lane_for(&mut self, spec: &Spec) -> u32 {
        let lane = self.lane_or_new(&spec.queue, &spec.kind, &spec.limits);
        self.lanes.at_mut(lane).jobs += 1;
        lane
    }

    pub(crate) fn lane_or_new(&mut self, queue: &Name, kind: &Name, limits: &[LimitKey]) -> u32 {
        let queue = self.queue_or_new(queue);
        let partition = self.partition_or_new(queue, kind);
        let existing = if limits.is_empty() {
            self.partitions.at(partition).plain
        } else {
            self.limited.get(&(partition, limits.to_vec())).copied()
        };
        existing.unwrap_or_else(|| self.new_lane(partition, limits))
    }

    /// Queue and kind of a lane.
    pub(crate) fn names(&self, lane: u32) -> (Name, Name) {
        let lane = self.lanes.at(lane);
        (self.queues.at(lane.queue).name.clone(), self.partitions.at(lane.partition).kind.clone())
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

    fn new_lane(&mut self, partition: u32, limits: &[LimitKey]) -> u32 {
        let limited = (!limits.is_empty()).then(|| {
            let buckets = limits.iter().map(|key| self.permits.add_lane(key)).collect();
            Box::new(LaneLimits { limits: limits.to_vec(), buckets })
        });
        let number = self.lanes.add(LaneRow {
            partition,
            queue: self.partitions.at(partition).queue,
            limited,
            ready: ReadyJobs::default(),
            head: None,
            parked: None,
            jobs: 0,
        });
        if limits.is_empty() {
            self.partitions.at_mut(partition).plain = Some(number);
        } else {
            self.limited.insert((partition, limits.to_vec()), number);
        }
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
                lane.ready.insert(position.priority, position.slot);
                self.woken.insert(lane.queue);
                self.refresh(position.lane);
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
                lane.ready.remove(position.priority, position.slot);
                self.refresh(position.lane);
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

    /// The sources of a claim for these queues and kinds.
    pub(crate) fn claim_sources(&self, queues: &[u32], kinds: Option<&[Name]>) -> ClaimSources {
        let mut open = queues.iter().filter(|queue| !self.queues.at(**queue).paused);
        let Some(kinds) = kinds else {
            return match (open.next(), open.next()) {
                (Some(queue), None) => ClaimSources::One(ClaimSource::Queue(*queue)),
                (one, other) => {
                    let queues = one.into_iter().chain(other).chain(open);
                    self.merged(queues.map(|queue| ClaimSource::Queue(*queue)))
                }
            };
        };
        let partitions = |queue: &u32| {
            let partitions = &self.queues.at(*queue).partitions;
            kinds
                .iter()
                .filter_map(|kind| partitions.get(kind))
                .map(|partition| ClaimSource::Partition(*partition))
        };
        self.merged(open.flat_map(partitions))
    }

    fn merged(&self, sources: impl Iterator<Item = ClaimSource>) -> ClaimSources {
        let head = |source| Some(Reverse((self.head(source)?, source)));
        ClaimSources::Merged { heads: sources.filter_map(head).collect(), drawn: None }
    }

    fn head(&self, source: ClaimSource) -> Option<LaneHead> {
        match source {
            ClaimSource::Queue(number) => self.queues.at(number).heads.first(),
            ClaimSource::Partition(number) => {
                let partition = self.partitions.at(number);
                let plain = partition.plain.and_then(|lane| self.lanes.at(lane).head);
                plain.into_iter().chain(partition.heads.first().copied()).min()
            }
        }
    }

    /// Returns the best head with its permits taken, and parks lanes without a permit. The caller
    /// moves the job before the next call.
    pub(crate) fn take(&mut self, sources: &mut ClaimSources, now: Time) -> Option<LaneHead> {
        loop {
            let head = self.best(sources)?;
            let Some(buckets) = self.lanes.at(head.lane).buckets() else { return Some(head) };
            match self.permits.take(&buckets, now) {
                Ok(()) => return Some(head),
                Err((bucket, blocked)) => self.park(head.lane, bucket, blocked, now),
            }
        }
    }

    /// The best head of all sources. A head changes only when its source was taken from, or when
    /// the same queue or partition was named twice, so the cached heads of the other sources hold.
    fn best(&self, sources: &mut ClaimSources) -> Option<LaneHead> {
        let (heads, drawn) = match sources {
            ClaimSources::One(source) => return self.head(*source),
            ClaimSources::Merged { heads, drawn } => (heads, drawn),
        };
        loop {
            if let Some(source) = drawn.take() {
                heads.extend(self.head(source).map(|head| Reverse((head, source))));
            }
            let Reverse((head, source)) = heads.pop()?;
            *drawn = Some(source);
            if self.head(source) == Some(head) {
                return Some(head);
            }
        }
    }

    /// Opens a lane that is not open. A sorted run is not a set: opening twice would add the head
    /// twice.
    fn open(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let Some(head) = row.head else { return };
        self.queues.at_mut(row.queue).heads.insert(head);
        if row.limited.is_some() {
            self.partitions.at_mut(row.partition).heads.insert(head);
        }
    }

    fn close(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let Some(head) = row.head else { return };
        self.queues.at_mut(row.queue).heads.remove(head);
        if row.limited.is_some() {
            self.partitions.at_mut(row.partition).heads.remove(&head);
        }
    }

    /// Updates the sets of heads after a lane's ready jobs have changed.
    fn refresh(&mut self, number: u32) {
        let lane = self.lanes.at(number);
        let head = lane.ready.first().map(|(priority, slot)| LaneHead {
            priority,
            at: slot.at,
            id: slot.id,
            lane: number,
        });
        let (old, parked, limited) = (lane.head, lane.parked, lane.limited.is_some());
        if head == old {
            return;
        }
        let better = head.is_some_and(|head| old.is_none_or(|old| head < old));
        match parked {
            // Only a better head reopens a parked lane; with a worse one the lane stays parked.
            Some(bucket) if head.is_some() && !better => {
                self.unpark(number);
                let row = self.lanes.at_mut(number);
                (row.head, row.parked) = (head, Some(bucket));
                let partition = row.partition;
                let parked = &mut self.permits.buckets.at_mut(bucket).parked;
                parked.entry(partition).or_default().extend(head);
            }
            Some(_) => {
                self.unpark(number);
                self.lanes.at_mut(number).head = head;
                self.open(number);
            }
            None => {
                self.close(number);
                self.lanes.at_mut(number).head = head;
                self.open(number);
                if limited && !better {
                    self.open_best_parked(number);
                }
            }
        }
    }
}
