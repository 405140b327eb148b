//! Rows of lanes, partitions and queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::fair::{FairShare, Turn};
use crore_core::limit::LimitKey;
use crore_core::version::VersionRequirement;
use crore_core::{Name, State, Time};

use super::super::key_index::KeyIndex;
use super::super::sorted_run::{RunSlot, SortedRun};
use super::ready::ReadyJobs;
use super::{FairHeads, LaneHead, TurnHead};

/// A lane. There may be a million, one for each fair key: a row takes 80 bytes.

#[derive(Debug)]
pub(crate) struct LaneRow {
    pub(crate) partition: u32,
    pub(super) queue: u32,
    /// The share of its fair key.
    pub(super) share: u32,
    /// Whether its jobs require a version of their kind.
    pub(super) is_versioned: bool,
    pub(super) limited: Option<Box<LaneLimits>>,
    pub(crate) ready: ReadyJobs,
    /// Jobs of this lane in any state.
    pub(super) jobs: u32,
}

/// Present only in lanes with limits.
#[derive(Debug)]
pub(super) struct LaneLimits {
    pub(super) limits: Vec<LimitKey>,
    pub(super) buckets: Arc<[u32]>,
    /// The bucket at which the lane is parked.
    pub(super) parked: Option<u32>,
    /// Whether a rate may be reserved for its head.
    pub(super) is_reserved: bool,
}

impl LaneRow {
    /// The head, which the sets of heads have. `number` is the number of the lane.
    pub(super) fn head(&self, number: u32) -> Option<LaneHead> {
        let (priority, slot) = self.ready.first()?;
        Some(LaneHead { priority, at: slot.at, id: slot.id, lane: number })
    }

    /// The buckets that each job needs a permit from.
    pub(super) fn buckets(&self) -> Option<Arc<[u32]>> {
        self.limited.as_ref().map(|limited| Arc::clone(&limited.buckets))
    }

    /// The bucket at which the lane is parked.
    pub(super) fn parked(&self) -> Option<u32> {
        self.limited.as_ref()?.parked
    }

    /// Whether the lane is parked and subject to this limit.
    pub(super) fn is_parked_and_has(&self, limit: &Name) -> bool {
        let mut keys = self.limited.iter().flat_map(|limited| &limited.limits);
        self.parked().is_some() && keys.any(|key| key.limit == *limit)
    }
}

#[derive(Debug)]
pub(crate) struct PartitionRow {
    pub(crate) queue: u32,
    pub(crate) kind: Name,
    /// The version that its jobs require.
    pub(crate) version: Option<VersionRequirement>,
    pub(crate) lanes: BTreeSet<u32>,
    /// The lane without limits, which has most jobs.
    pub(super) plain: Option<u32>,
    /// Heads of the open lanes with limits.
    pub(super) heads: BTreeSet<LaneHead>,
    /// Heads of the open lanes with shares.
    pub(super) fair: FairHeads,
    /// Buckets whose parked lanes with shares may have a permit, each at the position of its best lane or before.
    pub(super) armed: BTreeSet<(TurnHead, u32)>,
    /// Position in the order of the queue: at or before the best of `fair` and `armed`.
    pub(super) entered: Option<TurnHead>,
    /// Number of ready jobs, with the hidden ones.
    pub(super) ready: usize,
    /// Ready jobs whose deadline is over, by priority. They are in no lane.
    pub(crate) hidden: BTreeSet<(i32, RunSlot)>,
    pub(super) running: usize,
    /// Jobs with labels, errors or indexed fields.
    pub(crate) keys: KeyIndex,
    pub(super) waiting: SortedRun,
    pub(super) scheduled: SortedRun,
    pub(super) done: SortedRun,
    pub(super) dead: SortedRun,
    pub(super) cancelled: SortedRun,
}

impl PartitionRow {
    /// The run of a state; ready jobs are in the lanes, running jobs in the queue.
    pub(crate) const fn run(&self, state: State) -> Option<&SortedRun> {
        match state {
            State::Ready | State::Running => None,
            State::Waiting => Some(&self.waiting),
            State::Scheduled => Some(&self.scheduled),
            State::Done => Some(&self.done),
            State::Dead => Some(&self.dead),
            State::Cancelled => Some(&self.cancelled),
        }
    }

    pub(super) const fn run_mut(&mut self, state: State) -> Option<&mut SortedRun> {
        match state {
            State::Ready | State::Running => None,
            State::Waiting => Some(&mut self.waiting),
            State::Scheduled => Some(&mut self.scheduled),
            State::Done => Some(&mut self.done),
            State::Dead => Some(&mut self.dead),
            State::Cancelled => Some(&mut self.cancelled),
        }
    }

    pub(crate) fn count(&self, state: State) -> usize {
        match state {
            State::Ready => self.ready,
            State::Running => self.running,
            _ => self.run(state).map_or(0, SortedRun::len),
        }
    }
}

#[derive(Debug)]
pub(crate) struct QueueRow {
    pub(crate) name: Name,
    /// Partitions of jobs that any worker may run, by kind.
    pub(crate) partitions: BTreeMap<Name, u32>,
    /// Partitions of jobs that require a version, by kind.
    pub(crate) versioned: BTreeMap<Name, BTreeMap<VersionRequirement, u32>>,
    pub(crate) paused: bool,
    /// Heads of the open lanes without a required version. They leave at the front and return near the end, which suits a run.
    pub(super) heads: SortedRun<LaneHead>,
    /// Running jobs, by id.
    pub(crate) running: SortedRun,
    /// When a rate may admit the next job, per bucket with parked lanes of this queue.
    pub(super) timers: BTreeSet<(Time, u32)>,
    /// Partitions without a required version that have open or armed lanes with shares.
    pub(super) fair: BTreeSet<(TurnHead, u32)>,
    pub(super) fair_share: Option<Arc<FairShare>>,
    /// Start of the last claimed job of a share.
    pub(super) virtual_time: Turn,
    /// Number of shares.
    pub(super) shares: u32,
}

impl QueueRow {
    /// All partitions, with their kinds.
    pub(crate) fn all_partitions(&self) -> impl Iterator<Item = (&Name, u32)> {
        let versioned = self.versioned.iter();
        let versioned =
            versioned.flat_map(|(kind, all)| all.values().map(move |number| (kind, *number)));
        self.partitions.iter().map(|(kind, number)| (kind, *number)).chain(versioned)
    }

    /// Whether it has no jobs.
    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.versioned.is_empty()
    }

    /// Removes a partition.
    pub(super) fn remove_partition(&mut self, kind: &Name, version: Option<&VersionRequirement>) {
        let Some(version) = version else {
            self.partitions.remove(kind);
            return;
        };
        if let Some(all) = self.versioned.get_mut(kind) {
            all.remove(version);
            if all.is_empty() {
                self.versioned.remove(kind);
            }
        }
    }
}
