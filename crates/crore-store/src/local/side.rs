//! What a local store keeps besides jobs, as small things with a key and a value.
//!
//! Whoever keeps a store across restarts asks after every verb what it has [touched](Local::touched),
//! writes each of those things down as it is then, and [puts them back](Local::restore) when it opens.
//! So nothing about a verb has to be replayed, and the order of things with different keys does not
//! matter.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::{ClientId, Needs, Thing};
use crore_core::limit::{LimitKey, Tat};
use crore_core::{GroupId, JobId, Name, Revision, Time};

use super::Local;
use super::keys::Lock;
use super::notes::{Line, Progress};
use super::place::Place;
use super::records::Records;
use crate::registry::{Entry, Table};
use crate::views::Step;

/// Something besides a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The lock on a unique key.
    Lock(Arc<str>),
    /// That a job waits for something, and for which of its needs.
    Wait(Thing, Needs, JobId, u32),
    Group(GroupId),
    Entry(Table, Name),
    /// How far a rate is used up.
    Bucket(LimitKey),
    Leader(Name),
    Progress(JobId),
    Line(JobId, u64),
    Stat(Name, Step, Time),
}

impl Key {
    /// How many sorts there are.
    pub(crate) const SORTS: usize = 8;

    /// The sort's number, from 0.
    pub(crate) const fn sort(&self) -> usize {
        match self {
            Self::Lock(_) => 0,
            Self::Wait(..) => 1,
            Self::Group(_) => 2,
            Self::Entry(..) => 3,
            Self::Bucket(_) => 4,
            Self::Leader(_) => 5,
            Self::Progress(_) | Self::Line(..) => 6,
            Self::Stat(..) => 7,
        }
    }

    pub(crate) const fn is_definition(&self) -> bool {
        matches!(self, Self::Entry(..))
    }
}

/// What there is at a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Lock(Lock),
    Wait,
    Group(Group, Time),
    Entry(Box<Entry>),
    Bucket(Tat),
    Leader(u64, Time),
    Progress(Progress),
    Line(Line),
    Stat(u64),
}

impl<R: Records> Local<R> {
    /// The keys of all things that were set or removed since this was asked last.
    pub(crate) fn touched(&mut self) -> Vec<Key> {
        let mut touched = std::mem::take(&mut self.touched);
        let others = [
            &mut self.keys.touched,
            &mut self.ties.touched,
            &mut self.definitions.touched,
            &mut self.lanes.permits.touched,
            &mut self.notes.touched,
        ];
        for other in others.into_iter().filter(|other| !other.is_empty()) {
            touched.append(other);
        }
        touched
    }

    /// What there is at a key now.
    pub(crate) fn side(&self, key: &Key) -> Option<Value> {
        match key {
            Key::Lock(key) => self.keys.lock_of(key).map(Value::Lock),
            Key::Wait(on, needs, job, nth) => {
                self.ties.waits(*on, *needs, *job, *nth).then_some(Value::Wait)
            }
            Key::Group(id) => self.ties.group_at(*id).map(|(group, at)| Value::Group(group, at)),
            Key::Entry(table, name) => {
                self.definitions.entry(*table, name).map(|entry| Value::Entry(Box::new(entry)))
            }
            Key::Bucket(key) => self.lanes.permits.tat(key).map(Value::Bucket),
            Key::Leader(duty) => self.leaders.get(duty).map(|(node, at)| Value::Leader(*node, *at)),
            Key::Progress(id) => self.notes.progress_of(*id).map(Value::Progress),
            Key::Line(id, nth) => self.notes.line_of(*id, *nth).map(Value::Line),
            Key::Stat(series, step, at) => self.notes.count(series, *step, *at).map(Value::Stat),
        }
    }

    /// Puts a thing back that was there when the store was open last.
    pub(crate) fn restore(&mut self, key: Key, value: Value) {
        match (key, value) {
            (Key::Lock(key), Value::Lock(lock)) => self.keys.set(key, lock),
            (Key::Wait(on, needs, job, nth), Value::Wait) => self.ties.add(on, needs, job, nth),
            (Key::Group(id), Value::Group(group, at)) => self.ties.add_group(id, group, at),
            (Key::Entry(table, name), Value::Entry(entry)) => {
                let value = entry.value.clone();
                self.definitions.put(table, *entry);
                self.heed(table, &name, Some(value));
            }
            (Key::Bucket(key), Value::Bucket(tat)) => self.lanes.permits.set_tat(&key, tat),
            (Key::Leader(duty), Value::Leader(node, at)) => {
                self.leaders.insert(duty, (node, at));
            }
            (Key::Progress(id), Value::Progress(progress)) => self.notes.set_progress(id, progress),
            (Key::Line(id, nth), Value::Line(line)) => self.notes.set_line(id, nth, line),
            (Key::Stat(series, step, at), Value::Stat(n)) => {
                self.notes.set_count(series, step, at, n);
            }
            _ => {}
        }
    }

    /// The numbers of lanes that jobs are in which are about to be restored.
    pub(crate) fn restore_lanes(&mut self, lanes: &[(Name, Name, Vec<LimitKey>)]) -> Vec<u32> {
        let number = |(queue, kind, limits): &(Name, Name, Vec<LimitKey>)| {
            self.lanes.lane_or_new(queue, kind, limits)
        };
        lanes.iter().map(number).collect()
    }

    /// Puts a job back into the index.
    pub(crate) fn restore_job(&mut self, place: Place) {
        self.lanes.restore(place);
        self.enter(place);
    }

    pub(crate) fn restore_client(&mut self, client: &ClientId, id: JobId) {
        self.keys.add_client(client, id);
    }

    /// Goes on after these numbers.
    pub(crate) const fn restore_numbers(&mut self, id: u64, delivery: u64, revision: u64) {
        self.last_id = id;
        self.last_delivery = delivery;
        self.definitions.revision = Revision(revision);
    }

    /// How many things of each sort there are.
    pub(crate) fn side_counts(&self) -> [usize; Key::SORTS] {
        let (waits, groups) = self.ties.counts();
        let (notes, stats) = self.notes.counts();
        let locks = self.keys.locks();
        let (entries, buckets) = (self.definitions.count(), self.lanes.permits.count());
        [locks, waits, groups, entries, buckets, self.leaders.len(), notes, stats]
    }
}
