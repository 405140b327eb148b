//! The local stores' common part: an index over records, and every verb on it.
//!
//! [`Local`] holds the order of things in memory and leaves the jobs themselves to its [`Records`]:
//! a map for the memory store, the log for the embedded one. Verbs are plain functions on `&mut
//! self` with `now` passed in; whoever wraps them brings the lock, the clock and durability.

mod apply;
mod claim;
mod dense;
mod keys;
mod lanes;
mod notes;
mod permits;
mod place;
mod push;
mod records;
mod registry;
mod run;
mod side;
mod table;
mod ties;
mod upkeep;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::{Job, JobId, Name, State, Time};

use crate::Error;
use crate::registry::QueueSettings;

pub(crate) use dense::Dense;
use keys::Keys;
pub(crate) use keys::Lock;
use lanes::Lanes;
use notes::Notes;
pub(crate) use place::Place;
pub(crate) use records::{Map, Record, Records};
use registry::Definitions;
use run::Run;
pub(crate) use run::Slot;
pub(crate) use side::{Key, Value};
use ties::Ties;

/// The state of a local store.
#[derive(Debug)]
pub(crate) struct Local<R> {
    records: R,
    lanes: Lanes,
    keys: Keys,
    ties: Ties,
    notes: Notes,
    definitions: Definitions,
    /// Running jobs by the end of their lease.
    leases: Run,
    /// Scheduled jobs by when they are due.
    timers: Run,
    /// Waiting jobs that are broken.
    broken: BTreeSet<JobId>,
    /// Jobs with a result, by when it is gone.
    results: BTreeSet<(Time, JobId)>,
    leaders: BTreeMap<Name, (u64, Time)>,
    last_id: u64,
    last_delivery: u64,
    /// Leaders that were touched; the other parts keep their own lists.
    touched: Vec<Key>,
}

impl<R: Default> Default for Local<R> {
    fn default() -> Self {
        Self::with(R::default())
    }
}

impl<R> Local<R> {
    /// An index without anything in it, over these records.
    pub(crate) fn with(records: R) -> Self {
        Self {
            records,
            lanes: Lanes::default(),
            keys: Keys::default(),
            ties: Ties::default(),
            notes: Notes::default(),
            definitions: Definitions::default(),
            leases: Run::default(),
            timers: Run::default(),
            broken: BTreeSet::new(),
            results: BTreeSet::new(),
            leaders: BTreeMap::new(),
            last_id: 0,
            last_delivery: 0,
            touched: Vec::new(),
        }
    }
}

impl<R: Records> Local<R> {
    pub(crate) const fn records(&self) -> &R {
        &self.records
    }

    pub(crate) const fn records_mut(&mut self) -> &mut R {
        &mut self.records
    }

    /// From now on, what holds for a queue without settings of its own.
    pub(crate) const fn set_defaults(&mut self, settings: QueueSettings) {
        self.definitions.defaults = settings;
    }

    /// The last id, delivery and revision of the registry that were given out.
    pub(crate) const fn numbers(&self) -> (u64, u64, u64) {
        (self.last_id, self.last_delivery, self.definitions.revision.0)
    }

    /// The queues in which something to claim has appeared since this was asked last.
    pub(crate) fn woken(&mut self) -> Vec<Name> {
        self.lanes.woken()
    }

    pub(crate) fn load(&self, id: JobId) -> Result<Option<Record>, Error> {
        self.records.load(id)
    }

    /// Lets `change` change a job, and moves it in the index accordingly; `None`: it is not there.
    fn change<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Result<Option<T>, Error> {
        let lanes = &mut self.lanes;
        let moved = self.records.update(id, |record| {
            let (before, spec) = (Place::of(record), Arc::as_ptr(&record.job.spec));
            let answer = change(record);
            if spec != Arc::as_ptr(&record.job.spec) {
                record.lane = lanes.lane_for(&record.job.spec);
                record.priority = record.job.spec.priority;
                lanes.forget(before.lane);
            }
            (before, Place::of(record), answer)
        })?;
        let Some((before, after, answer)) = moved else { return Ok(None) };
        if before != after {
            self.leave(before);
            self.enter(after);
        }
        Ok(Some(answer))
    }

    /// Adds a job to records and index.
    fn add(&mut self, job: Job) -> Result<(), Error> {
        let lane = self.lanes.lane_for(&job.spec);
        let record = Record { lane, priority: job.spec.priority, job };
        self.enter(Place::of(&record));
        self.records.insert(record)
    }

    /// Removes a job and everything that belongs to it alone, and gives it.
    fn remove(&mut self, id: JobId) -> Result<Option<Record>, Error> {
        let Some(record) = self.records.remove(id)? else { return Ok(None) };
        self.leave(Place::of(&record));
        self.lanes.forget(record.lane);
        if let Some(client) = &record.job.spec.client_id {
            self.keys.drop_client(client);
        }
        self.ties.forget(id, &record.job.spec.after);
        self.notes.forget(id);
        Ok(Some(record))
    }

    fn enter(&mut self, place: Place) {
        let id = place.slot.id;
        self.lanes.enter(place);
        match place.state {
            State::Scheduled => self.timers.insert(place.slot),
            State::Running => self.leases.insert(Slot { at: place.lease_until, id }),
            State::Waiting if place.broken => {
                self.broken.insert(id);
            }
            _ => {}
        }
        self.results.extend(place.result_until.map(|until| (until, id)));
    }

    fn leave(&mut self, place: Place) {
        let id = place.slot.id;
        self.lanes.leave(place);
        match place.state {
            State::Scheduled => {
                self.timers.remove(place.slot);
            }
            State::Running => {
                self.leases.remove(Slot { at: place.lease_until, id });
            }
            State::Waiting if place.broken => {
                self.broken.remove(&id);
            }
            _ => {}
        }
        if let Some(until) = place.result_until {
            self.results.remove(&(until, id));
        }
    }
}
