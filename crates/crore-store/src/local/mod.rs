//! The index that both local stores share, and every store operation on it.
//!
//! [`LocalIndex`] keeps order and counts in memory and leaves the jobs to its [`JobRecords`]: a map
//! in the memory store, the log in the embedded store. Operations are plain functions on
//! `&mut self` that take `now` as an argument; the store around them adds the lock, the clock and
//! durability.

mod apply;
mod arena;
mod claim;
mod deadlines;
mod dense_map;
mod dependencies;
mod events;
mod index_position;
mod key_index;
mod keys;
mod lanes;
mod notes;
mod permits;
mod push;
mod records;
mod registry;
mod release;
mod series;
mod side;
mod sorted_run;
mod upkeep;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::{Job, JobId, Name, State, Time};

use crate::registry::QueueSettings;
use crate::{Error, StoreId};

use deadlines::Deadlines;
pub(crate) use dense_map::DenseMap;
use dependencies::Dependencies;
use events::EventTable;
pub(crate) use events::{JobWait, StoredEvent};
pub(crate) use index_position::{IndexPosition, indexed_deadline};
use key_index::{KeySource, SearchKeys, has_keys};
use keys::JobKeys;
pub(crate) use keys::KeyLock;
pub(crate) use lanes::LaneKey;
use lanes::Lanes;
use notes::NoteTable;
pub(crate) use permits::BucketState;
pub(crate) use records::{JobRecord, JobRecords, MemoryRecords};
use registry::RegistryEntries;
use series::SeriesTable;
pub(crate) use series::{SeriesSnapshot, check_block};
pub(crate) use side::{SideKey, SideValue};
pub(crate) use sorted_run::RunSlot;
use sorted_run::SortedRun;

/// The entries of a job in the indexes that most jobs are not in: its keys, and its wait for an event.
#[derive(Debug, Default)]
struct ExtraEntries {
    wait: Option<JobWait>,
    keys: KeySource,
}

/// How a change moves these entries.
struct ExtraMove {
    /// The new wait, if it has changed.
    wait: Option<Option<JobWait>>,
    /// The keys before the change, and those behind it, if they differ.
    keys: (SearchKeys, Option<SearchKeys>),
}

impl ExtraEntries {
    /// `None`: the job has none. `may_have_keys`: whether a job of its partition has keys. The definition of a job is
    /// seldom in the processor's cache, so it is not looked at without need.
    fn of(job: &Job, may_have_keys: bool) -> Option<Self> {
        let wait = JobWait::of(job);
        let keys = may_have_keys.then(|| KeySource::of(job)).flatten();
        (wait.is_some() || keys.is_some()).then(|| Self { wait, keys: keys.unwrap_or_default() })
    }

    /// `None`: a job without entries still has none. Boxed, because this is so for most jobs.
    fn after(before: Option<Self>, job: &Job, is_new_spec: bool) -> Option<Box<ExtraMove>> {
        let may_have = is_new_spec || job.live.event.is_some() || job.live.newest_error().is_some();
        if before.is_none() && !may_have {
            return None;
        }
        let Self { wait: waited, keys } = before.unwrap_or_default();
        let wait = JobWait::of(job);
        let wait = (wait != waited).then_some(wait);
        Some(Box::new(ExtraMove { wait, keys: keys.after(job, is_new_spec) }))
    }
}

/// Index and auxiliary state of a local store.
#[derive(Debug)]
pub(crate) struct LocalIndex<R> {
    records: R,
    lanes: Lanes,
    keys: JobKeys,
    dependencies: Dependencies,
    notes: NoteTable,
    series: SeriesTable,
    definitions: RegistryEntries,
    /// Running jobs by the end of their lease.
    leases: SortedRun,
    /// Scheduled jobs by due time.
    timers: SortedRun,
    /// Waiting jobs with a broken dependency.
    broken: BTreeSet<JobId>,
    deadlines: Deadlines,
    events: EventTable,
    /// Jobs with a result, by the time at which it expires.
    results: BTreeSet<(Time, JobId)>,
    leaders: BTreeMap<Name, (u64, Time)>,
    /// Identity of a persistent store; `None` until it is set or restored.
    identity: Option<StoreId>,
    last_id: u64,
    last_delivery: u64,
    /// Leaders and identity changed since the last [`LocalIndex::take_touched`]; the other parts keep their own
    /// lists.
    touched: Vec<SideKey>,
}

impl<R: Default> Default for LocalIndex<R> {
    fn default() -> Self {
        Self::with(R::default())
    }
}

impl<R> LocalIndex<R> {
    /// Creates an empty index over these records.
    pub(crate) fn with(records: R) -> Self {
        Self {
            records,
            lanes: Lanes::default(),
            keys: JobKeys::default(),
            dependencies: Dependencies::default(),
            notes: NoteTable::default(),
            series: SeriesTable::default(),
            definitions: RegistryEntries::default(),
            leases: SortedRun::default(),
            timers: SortedRun::default(),
            broken: BTreeSet::new(),
            deadlines: Deadlines::default(),
            events: EventTable::default(),
            results: BTreeSet::new(),
            leaders: BTreeMap::new(),
            identity: None,
            last_id: 0,
            last_delivery: 0,
            touched: Vec::new(),
        }
    }
}

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) const fn records(&self) -> &R {
        &self.records
    }

    pub(crate) const fn records_mut(&mut self) -> &mut R {
        &mut self.records
    }

    /// Sets the settings of queues without settings of their own.
    pub(crate) fn set_defaults(&mut self, settings: QueueSettings) {
        self.definitions.defaults = settings;
    }

    /// The identity that was restored; without one, sets what `draw` returns.
    pub(crate) fn identity_or(&mut self, draw: impl FnOnce() -> StoreId) -> StoreId {
        *self.identity.get_or_insert_with(|| {
            self.touched.push(SideKey::Identity);
            draw()
        })
    }

    /// The last allocated job id, delivery and registry revision.
    pub(crate) const fn numbers(&self) -> (u64, u64, u64) {
        (self.last_id, self.last_delivery, self.definitions.revision.0)
    }

    /// Returns the queues with new claimable jobs since the last call.
    pub(crate) fn take_woken(&mut self) -> Vec<Name> {
        self.lanes.take_woken()
    }

    pub(crate) fn load(&self, id: JobId) -> Result<Option<JobRecord>, Error> {
        self.records.load(id)
    }

    /// Lets `change` modify a job, then moves the job in the index; `None` if it does not exist.
    fn change<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut JobRecord) -> T,
    ) -> Result<Option<T>, Error> {
        let lanes = &mut self.lanes;
        // Not returned by the closure: a claimed job is large, and every move copies it.
        let mut result = None;
        let moved = self.records.update(id, |record| {
            let (before, spec) = (IndexPosition::of(record), Arc::as_ptr(&record.job.spec));
            let extra = ExtraEntries::of(&record.job, lanes.has_keys(before.lane));
            result = Some(change(record));
            let is_new_spec = spec != Arc::as_ptr(&record.job.spec);
            if is_new_spec {
                record.lane = lanes.lane_for(&record.job.spec);
                record.priority = record.job.spec.priority;
                lanes.remove_job(before.lane);
            }
            let after = IndexPosition::of(record);
            if is_new_spec {
                lanes.set_costs(id, None);
            }
            if lanes.is_limited(after.lane)
                && let Some(costs) = &record.job.spec.costs
            {
                lanes.set_costs(id, (after.state == State::Ready).then_some(costs));
            }
            (before, after, ExtraEntries::after(extra, &record.job, is_new_spec))
        })?;
        let Some((before, after, extra)) = moved else { return Ok(None) };
        if let Some(extra) = extra {
            self.move_extra((&before, &after), *extra);
        }
        if before != after {
            self.index_remove(before);
            self.index_insert(after);
        }
        Ok(result)
    }

    /// Moves a job in the indexes that most jobs are not in.
    fn move_extra(&mut self, (before, after): (&IndexPosition, &IndexPosition), extra: ExtraMove) {
        if let Some(wait) = extra.wait {
            self.events.set(after.slot.id, wait);
        }
        self.move_keys((before, after), (&extra.keys.0, extra.keys.1.as_ref()));
    }

    /// Adds a job to the records and the index.
    fn add(&mut self, job: Job) -> Result<(), Error> {
        let lane = self.lanes.lane_for(&job.spec);
        if let Some(costs) = job.spec.costs.as_ref().filter(|_| job.live.state == State::Ready) {
            self.lanes.set_costs(job.id, Some(costs));
        }
        let record = JobRecord { lane, priority: job.spec.priority, job };
        let position = IndexPosition::of(&record);
        self.index_insert(position);
        if has_keys(&record.job) {
            self.insert_keys(&position, &SearchKeys::of(&record.job));
        }
        if let Some(wait) = JobWait::of(&record.job) {
            self.events.set(record.job.id, Some(wait));
        }
        self.records.insert(record)
    }

    /// Removes a job with everything that belongs to it alone, and returns its record.
    fn remove(&mut self, id: JobId) -> Result<Option<JobRecord>, Error> {
        let Some(record) = self.records.remove(id)? else { return Ok(None) };
        let position = IndexPosition::of(&record);
        self.index_remove(position);
        if has_keys(&record.job) {
            self.remove_keys(&position, &SearchKeys::of(&record.job));
        }
        self.lanes.remove_job(record.lane);
        if record.job.spec.costs.is_some() {
            self.lanes.set_costs(id, None);
        }
        if let Some(client) = &record.job.spec.client_id {
            self.keys.drop_client(client);
        }
        self.dependencies.remove_waits(id, &record.job.spec.after);
        self.events.remove_job(id);
        self.notes.remove_job(id);
        Ok(Some(record))
    }

    fn index_insert(&mut self, position: IndexPosition) {
        let id = position.slot.id;
        self.lanes.insert(position);
        match position.state {
            State::Scheduled => self.timers.insert(position.slot),
            State::Running => self.leases.insert(RunSlot { at: position.lease_until, id }),
            State::Waiting if position.broken => {
                self.broken.insert(id);
            }
            _ => {}
        }
        self.results.extend(position.result_until.map(|until| (until, id)));
        if let Some(deadline) = position.deadline {
            self.deadlines.insert(deadline, &position);
        }
    }

    fn index_remove(&mut self, position: IndexPosition) {
        let id = position.slot.id;
        let hidden = position.deadline.is_some_and(|deadline| self.deadlines.remove(deadline, id));
        if hidden && position.state == State::Ready {
            self.lanes.remove_hidden(position);
        } else {
            self.lanes.remove(position);
        }
        match position.state {
            State::Scheduled => {
                self.timers.remove(position.slot);
            }
            State::Running => {
                self.leases.remove(RunSlot { at: position.lease_until, id });
            }
            State::Waiting if position.broken => {
                self.broken.remove(&id);
            }
            _ => {}
        }
        if let Some(until) = position.result_until {
            self.results.remove(&(until, id));
        }
    }
}
