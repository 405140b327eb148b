//! The registry: entries by table and name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crore_core::group::Group;
use crore_core::{GroupId, Name, Revision, Time};

use super::Local;
use super::records::Records;
use super::side::Key;
use crate::registry::{Define, Defined, Definition, Entry, Guard, QueueSettings, Table, Value};

#[derive(Debug, Default)]
pub(crate) struct Definitions {
    entries: BTreeMap<(Table, Name), Entry>,
    expiries: BTreeSet<(Time, Table, Name)>,
    /// One counter for all entries, so that an entry which is set anew does not start again.
    pub(super) revision: Revision,
    pub(crate) touched: Vec<Key>,
    /// What holds for a queue without settings of its own.
    pub(super) defaults: QueueSettings,
}

impl Definitions {
    pub(crate) fn entry(&self, table: Table, name: &Name) -> Option<Entry> {
        self.entries.get(&(table, name.clone())).cloned()
    }

    pub(crate) fn put(&mut self, table: Table, entry: Entry) {
        self.expiries.extend(entry.expires_at.map(|at| (at, table, entry.name.clone())));
        self.entries.insert((table, entry.name.clone()), entry);
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, table: Table, name: &Name, now: Time) -> Option<&Entry> {
        let entry = self.entries.get(&(table, name.clone()))?;
        entry.expires_at.is_none_or(|at| now < at).then_some(entry)
    }

    /// What holds for a queue.
    pub(crate) fn settings(&self, queue: &Name, now: Time) -> QueueSettings {
        match self.get(Table::Queues, queue, now) {
            Some(Entry { value: Value::Queue(settings), .. }) => *settings,
            _ => self.defaults,
        }
    }

    /// Sets or removes an entry; `None`: its guard does not hold.
    fn define(&mut self, define: &Define, now: Time) -> Option<Revision> {
        let (table, name) = (define.table(), &define.name);
        let current = self.get(table, name, now).map(|entry| entry.revision);
        let holds = match define.guard {
            Guard::Any => true,
            Guard::Absent => current.is_none(),
            Guard::At(revision) => current == Some(revision),
        };
        if !holds {
            return None;
        }
        self.remove(table, name);
        self.revision = self.revision.next();
        if let Definition::Set(value) = &define.to {
            let expires_at = define.expires_after.map(|span| now.after(span));
            let (name, value, revision) = (name.clone(), value.clone(), self.revision);
            self.put(table, Entry { name, value, revision, expires_at });
        }
        Some(self.revision)
    }

    fn remove(&mut self, table: Table, name: &Name) {
        let removed = self.entries.remove(&(table, name.clone()));
        self.touched.push(Key::Entry(table, name.clone()));
        if let Some(at) = removed.and_then(|entry| entry.expires_at) {
            self.expiries.remove(&(at, table, name.clone()));
        }
    }

    /// Moves a schedule's cursor; says whether it was still as seen.
    pub(crate) fn tick(&mut self, name: &Name, seen: Revision, cursor: Time, now: Time) -> bool {
        let key = (Table::Schedules, name.clone());
        let next = self.revision.next();
        if self.get(Table::Schedules, name, now).is_none_or(|entry| entry.revision != seen) {
            return false;
        }
        let Some(Entry { value: Value::Schedule(schedule), revision, .. }) =
            self.entries.get_mut(&key)
        else {
            return false;
        };
        schedule.cursor = cursor;
        *revision = next;
        self.touched.push(Key::Entry(Table::Schedules, name.clone()));
        self.revision = next;
        true
    }

    /// Drops an entry whose time is over, if there is one.
    fn expire(&mut self, now: Time) -> Option<(Table, Name)> {
        let (_, table, name) = self.expiries.first().filter(|(at, _, _)| *at <= now)?.clone();
        self.remove(table, &name);
        Some((table, name))
    }
}

impl<R: Records> Local<R> {
    pub(crate) fn define(&mut self, definitions: &[Define], now: Time) -> Vec<Defined> {
        definitions
            .iter()
            .map(|define| match self.definitions.define(define, now) {
                None => Defined::Stale,
                Some(revision) => {
                    let value = match &define.to {
                        Definition::Set(value) => Some(value.clone()),
                        Definition::Remove(_) => None,
                    };
                    self.heed(define.table(), &define.name, value);
                    Defined::Yes(revision)
                }
            })
            .collect()
    }

    /// Drops up to `n` entries whose time is over. Gives how many.
    pub(crate) fn expire(&mut self, n: usize, now: Time) -> usize {
        let mut dropped = 0;
        while dropped < n
            && let Some((table, name)) = self.definitions.expire(now)
        {
            self.heed(table, &name, None);
            dropped += 1;
        }
        dropped
    }

    /// Limits and pauses hold from now on.
    pub(super) fn heed(&mut self, table: Table, name: &Name, value: Option<Value>) {
        match table {
            Table::Limits => {
                let limit = match value {
                    Some(Value::Limit(limit)) => Some(limit),
                    _ => None,
                };
                self.lanes.permits.define(name, limit);
                self.lanes.reopen_all(name);
            }
            Table::Queues => {
                let paused = matches!(&value, Some(Value::Queue(settings)) if settings.paused);
                self.lanes.pause(name, paused);
            }
            Table::Schedules | Table::Handlers | Table::Workers | Table::Tokens => {}
        }
    }

    pub(crate) fn entries(
        &self,
        table: Table,
        after: Option<&Name>,
        n: usize,
        now: Time,
    ) -> Vec<Entry> {
        let from = match after {
            Some(name) => Bound::Excluded((table, name.clone())),
            None => Bound::Unbounded,
        };
        let entries = self.definitions.entries.range((from, Bound::Unbounded));
        let entries =
            entries.skip_while(|((t, _), _)| *t < table).take_while(|((t, _), _)| *t == table);
        let alive = entries.filter(|(_, entry)| entry.expires_at.is_none_or(|at| now < at));
        alive.take(n).map(|(_, entry)| entry.clone()).collect()
    }

    pub(crate) fn group(&self, id: GroupId) -> Option<Group> {
        self.ties.group(id)
    }
}
