//! State of a local store besides its jobs, as key-value pairs ("side records").
//!
//! After every operation a persistent store takes the [touched](LocalIndex::take_touched) keys and
//! writes their current values; on opening it [restores](LocalIndex::restore) them. Nothing has to
//! be replayed, and the order of records with different keys does not matter.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::{ClientId, DependencyCondition, DependencyTarget};
use crore_core::limit::LimitKey;
use crore_core::{EventId, GroupId, IndexKey, JobId, Name, Revision, Time};

use super::LocalIndex;
use super::events::{JobWait, StoredEvent};
use super::index_position::IndexPosition;
use super::keys::KeyLock;
use super::lanes::LaneKey;
use super::notes::{LogLine, ProgressNote};
use super::permits::BucketState;
use super::records::JobRecords;
use crate::StoreId;
use crate::registry::{RegistryEntry, RegistryTable};
use crate::views::StatStep;

/// Key of a side record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SideKey {
    /// Lock of a unique key.
    Lock(Arc<str>),
    /// A job's wait: target, condition, waiting job, index among its dependencies.
    Wait(DependencyTarget, DependencyCondition, JobId, u32),
    Group(GroupId),
    Entry(RegistryTable, Name),
    /// Rate used under a limit key, and its pause.
    Bucket(LimitKey),
    Leader(Name),
    Progress(JobId),
    Line(JobId, u64),
    Stat(Name, StatStep, Time),
    /// Queue and kind of a series, by its number.
    SeriesName(u32),
    /// Statistics of the series of one block in one bucket.
    Series(StatStep, Time, u32),
    /// Identity of the store.
    Identity,
    Event(EventId),
    /// The event that a job waits for or has received.
    EventWait(JobId),
}

impl SideKey {
    /// Number of kinds.
    pub(crate) const KINDS: usize = 13;

    /// Number of the kind, from 0.
    pub(crate) const fn kind(&self) -> usize {
        match self {
            Self::Lock(_) => 0,
            Self::Wait(..) => 1,
            Self::Group(_) => 2,
            Self::Entry(..) => 3,
            Self::Bucket(_) => 4,
            Self::Leader(_) => 5,
            Self::Progress(_) | Self::Line(..) => 6,
            Self::Stat(..) => 7,
            Self::Identity => 8,
            Self::SeriesName(_) => 9,
            Self::Series(..) => 10,
            Self::Event(_) => 11,
            Self::EventWait(_) => 12,
        }
    }

    pub(crate) const fn is_definition(&self) -> bool {
        matches!(self, Self::Entry(..))
    }
}

/// Value of a side record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SideValue {
    Lock(KeyLock),
    Wait,
    Group(Group, Time),
    Entry(Box<RegistryEntry>),
    Bucket(BucketState),
    Leader(u64, Time),
    Progress(ProgressNote),
    Line(LogLine),
    Stat(u64),
    SeriesName(Name, Name),
    Series(Arc<[u8]>),
    Identity(StoreId),
    Event(Box<StoredEvent>),
    EventWait(JobWait),
}

impl<R: JobRecords> LocalIndex<R> {
    /// Returns the keys that were set or removed since the last call.
    pub(crate) fn take_touched(&mut self) -> Vec<SideKey> {
        let mut touched = std::mem::take(&mut self.touched);
        let others = [
            &mut self.keys.touched,
            &mut self.dependencies.touched,
            &mut self.definitions.touched,
            &mut self.lanes.permits.touched,
            &mut self.notes.touched,
            &mut self.events.touched,
        ];
        for other in others.into_iter().filter(|other| !other.is_empty()) {
            touched.append(other);
        }
        self.series.take_touched(&mut touched);
        touched
    }

    /// Current value of a key.
    pub(crate) fn side_value(&self, key: &SideKey) -> Option<SideValue> {
        match key {
            SideKey::Lock(key) => self.keys.lock_of(key).map(SideValue::Lock),
            SideKey::Wait(on, needs, job, nth) => {
                self.dependencies.waits(*on, *needs, *job, *nth).then_some(SideValue::Wait)
            }
            SideKey::Group(id) => {
                self.dependencies.group_at(*id).map(|(group, at)| SideValue::Group(group, at))
            }
            SideKey::Entry(table, name) => {
                self.definitions.entry(*table, name).map(|entry| SideValue::Entry(Box::new(entry)))
            }
            SideKey::Bucket(key) => self.lanes.permits.state(key).map(SideValue::Bucket),
            SideKey::Leader(duty) => {
                self.leaders.get(duty).map(|(node, at)| SideValue::Leader(*node, *at))
            }
            SideKey::Progress(id) => self.notes.progress_of(*id).map(SideValue::Progress),
            SideKey::Line(id, nth) => self.notes.line_of(*id, *nth).map(SideValue::Line),
            SideKey::Stat(series, step, at) => {
                self.notes.count(series, *step, *at).map(SideValue::Stat)
            }
            SideKey::SeriesName(number) => {
                self.series.name_of(*number).map(|(queue, kind)| SideValue::SeriesName(queue, kind))
            }
            SideKey::Series(step, at, nth) => {
                self.series.block(*step, *at, *nth).map(SideValue::Series)
            }
            SideKey::Identity => self.identity.map(SideValue::Identity),
            SideKey::Event(id) => {
                self.events.stored(*id).map(|event| SideValue::Event(Box::new(event.clone())))
            }
            SideKey::EventWait(job) => {
                self.events.wait_of(*job).map(|wait| SideValue::EventWait(wait.clone()))
            }
        }
    }

    /// Restores a value from the last time the store was open.
    pub(crate) fn restore(&mut self, key: SideKey, value: SideValue) {
        match (key, value) {
            (SideKey::Lock(key), SideValue::Lock(lock)) => self.keys.set(key, lock),
            (SideKey::Wait(on, needs, job, nth), SideValue::Wait) => {
                self.dependencies.add(on, needs, job, nth);
            }
            (SideKey::Group(id), SideValue::Group(group, at)) => {
                self.dependencies.add_group(id, group, at);
            }
            (SideKey::Entry(table, name), SideValue::Entry(entry)) => {
                let value = entry.value.clone();
                self.definitions.put(table, *entry);
                self.put_into_effect(table, &name, Some(value));
            }
            (SideKey::Bucket(key), SideValue::Bucket(state)) => {
                self.lanes.permits.set_state(&key, state);
            }
            (SideKey::Leader(duty), SideValue::Leader(node, at)) => {
                self.leaders.insert(duty, (node, at));
            }
            (SideKey::Progress(id), SideValue::Progress(progress)) => {
                self.notes.set_progress(id, progress);
            }
            (SideKey::Line(id, nth), SideValue::Line(line)) => self.notes.set_line(id, nth, line),
            (SideKey::Stat(series, step, at), SideValue::Stat(n)) => {
                self.notes.set_count(series, step, at, n);
            }
            (SideKey::SeriesName(number), SideValue::SeriesName(queue, kind)) => {
                self.series.set_name(number, (queue, kind));
            }
            (SideKey::Series(step, at, nth), SideValue::Series(block)) => {
                self.series.set_block(step, (at, nth), block);
            }
            (SideKey::Identity, SideValue::Identity(id)) => self.identity = Some(id),
            (SideKey::Event(id), SideValue::Event(event)) => self.events.add(id, *event),
            (SideKey::EventWait(job), SideValue::EventWait(wait)) => {
                self.events.set_restored(job, wait);
            }
            _ => {}
        }
    }

    /// After the last [`LocalIndex::restore`].
    pub(crate) fn finish_restore(&mut self) {
        self.events.finish_restore();
    }

    /// Returns the lane numbers for jobs that are about to be restored.
    pub(crate) fn restore_lanes(&mut self, lanes: &[LaneKey]) -> Vec<u32> {
        lanes.iter().map(|lane| self.lanes.lane_or_new(lane.borrowed())).collect()
    }

    /// Sets the costs of a job that is about to be restored, or removes them if it is not ready.
    pub(crate) fn restore_costs(&mut self, id: JobId, costs: Option<&Arc<[u32]>>) {
        self.lanes.set_costs(id, costs);
    }

    /// Puts a job back into the index.
    pub(crate) fn restore_job(&mut self, position: IndexPosition, keys: &[IndexKey]) {
        self.lanes.restore(position);
        self.index_insert(position);
        self.restore_keys(&position, keys);
    }

    pub(crate) fn restore_client(&mut self, client: &ClientId, id: JobId) {
        self.keys.add_client(client, id);
    }

    /// Continues after these numbers.
    pub(crate) const fn restore_numbers(&mut self, id: u64, delivery: u64, revision: u64) {
        self.last_id = id;
        self.last_delivery = delivery;
        self.definitions.revision = Revision(revision);
    }

    /// Number of side records of each kind.
    pub(crate) fn side_counts(&self) -> [usize; SideKey::KINDS] {
        let (waits, groups) = self.dependencies.counts();
        let (notes, stats) = self.notes.counts();
        let locks = self.keys.locks();
        let (entries, buckets) = (self.definitions.count(), self.lanes.permits.count());
        let (leaders, identity) = (self.leaders.len(), usize::from(self.identity.is_some()));
        let (names, blocks) = self.series.counts();
        let (events, event_waits) = self.events.counts();
        [
            locks,
            waits,
            groups,
            entries,
            buckets,
            leaders,
            notes,
            stats,
            identity,
            names,
            blocks,
            events,
            event_waits,
        ]
    }
}
