//! The registry: entries by table and name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crore_core::group::Group;
use crore_core::{GroupId, Name, Revision, Time};

use super::LocalIndex;
use super::records::JobRecords;
use super::side::SideKey;
use crate::registry::{
    Define, DefineAction, Defined, QueueSettings, RegistryEntry, RegistryTable, RegistryValue,
};
use crate::views::GroupRow;

#[derive(Debug, Default)]
pub(crate) struct RegistryEntries {
    entries: BTreeMap<(RegistryTable, Name), RegistryEntry>,
    expiries: BTreeSet<(Time, RegistryTable, Name)>,
    /// Shared by all entries, so that the revisions of an entry do not restart after its removal.
    pub(super) revision: Revision,
    pub(crate) touched: Vec<SideKey>,
    /// Settings of queues without settings of their own.
    pub(super) defaults: QueueSettings,
}

impl RegistryEntries {
    pub(crate) fn entry(&self, table: RegistryTable, name: &Name) -> Option<RegistryEntry> {
        self.entries.get(&(table, name.clone())).cloned()
    }

    pub(crate) fn put(&mut self, table: RegistryTable, entry: RegistryEntry) {
        self.expiries.extend(entry.expires_at.map(|at| (at, table, entry.name.clone())));
        self.entries.insert((table, entry.name.clone()), entry);
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, table: RegistryTable, name: &Name, now: Time) -> Option<&RegistryEntry> {
        let entry = self.entries.get(&(table, name.clone()))?;
        entry.expires_at.is_none_or(|at| now < at).then_some(entry)
    }

    /// Effective settings of a queue.
    pub(crate) fn settings(&self, queue: &Name, now: Time) -> QueueSettings {
        match self.get(RegistryTable::Queues, queue, now) {
            Some(RegistryEntry { value: RegistryValue::Queue(settings), .. }) => settings.clone(),
            _ => self.defaults.clone(),
        }
    }

    fn guard_holds(&self, define: &Define, now: Time) -> bool {
        let current = self.get(define.table(), &define.name, now).map(|entry| entry.revision);
        define.guard.holds(current)
    }

    /// Sets or removes an entry, whatever its guard.
    fn define(&mut self, define: &Define, now: Time) -> Revision {
        let (table, name) = (define.table(), &define.name);
        self.remove(table, name);
        self.revision = self.revision.next();
        if let DefineAction::Set(value) = &define.action {
            let expires_at = define.expires_after.map(|span| now.after(span));
            let (name, value, revision) = (name.clone(), value.clone(), self.revision);
            self.put(table, RegistryEntry { name, value, revision, expires_at });
        }
        self.revision
    }

    fn remove(&mut self, table: RegistryTable, name: &Name) {
        let removed = self.entries.remove(&(table, name.clone()));
        self.touched.push(SideKey::Entry(table, name.clone()));
        if let Some(at) = removed.and_then(|entry| entry.expires_at) {
            self.expiries.remove(&(at, table, name.clone()));
        }
    }

    /// Moves a schedule's cursor; returns whether the entry still had the seen revision.
    pub(crate) fn tick(&mut self, name: &Name, seen: Revision, cursor: Time, now: Time) -> bool {
        let key = (RegistryTable::Schedules, name.clone());
        let next = self.revision.next();
        if self.get(RegistryTable::Schedules, name, now).is_none_or(|entry| entry.revision != seen)
        {
            return false;
        }
        let Some(RegistryEntry { value: RegistryValue::Schedule(schedule), revision, .. }) =
            self.entries.get_mut(&key)
        else {
            return false;
        };
        schedule.cursor = cursor;
        *revision = next;
        self.touched.push(SideKey::Entry(RegistryTable::Schedules, name.clone()));
        self.revision = next;
        true
    }

    /// Removes one expired entry, if there is any.
    fn expire(&mut self, now: Time) -> Option<(RegistryTable, Name)> {
        let (_, table, name) = self.expiries.first().filter(|(at, _, _)| *at <= now)?.clone();
        self.remove(table, &name);
        Some((table, name))
    }
}

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn define(&mut self, definitions: &[Define], now: Time) -> Vec<Defined> {
        let mut joint = definitions.iter().filter(|define| define.joint);
        let joint_hold = joint.all(|define| self.definitions.guard_holds(define, now));
        let mut results = Vec::with_capacity(definitions.len());
        for define in definitions {
            let holds = match define.joint {
                true => joint_hold,
                false => self.definitions.guard_holds(define, now),
            };
            results.push(if holds { self.define_one(define, now) } else { Defined::Stale });
        }
        results
    }

    fn define_one(&mut self, define: &Define, now: Time) -> Defined {
        let revision = self.definitions.define(define, now);
        let value = match &define.action {
            DefineAction::Set(value) => Some(value.clone()),
            DefineAction::Remove(_) => None,
        };
        self.put_into_effect(define.table(), &define.name, value);
        Defined::Yes(revision)
    }

    /// Removes up to `n` expired entries, and returns how many.
    pub(crate) fn expire(&mut self, n: usize, now: Time) -> usize {
        let mut dropped = 0;
        while dropped < n
            && let Some((table, name)) = self.definitions.expire(now)
        {
            self.put_into_effect(table, &name, None);
            dropped += 1;
        }
        dropped
    }

    /// Puts a changed limit, pause or fair share into effect.
    pub(super) fn put_into_effect(
        &mut self,
        table: RegistryTable,
        name: &Name,
        value: Option<RegistryValue>,
    ) {
        match table {
            RegistryTable::Limits => {
                let limit = match value {
                    Some(RegistryValue::Limit(limit)) => Some(limit),
                    _ => None,
                };
                self.lanes.permits.define(name, limit);
                self.lanes.reopen_all(name);
            }
            RegistryTable::Queues => {
                let (paused, fair) = match value {
                    Some(RegistryValue::Queue(settings)) => (settings.paused, settings.fair),
                    _ => (false, None),
                };
                self.lanes.pause(name, paused);
                self.lanes.set_fair_share(name, fair);
            }
            RegistryTable::Schedules
            | RegistryTable::Handlers
            | RegistryTable::Workers
            | RegistryTable::Tokens
            | RegistryTable::Operations => {}
        }
    }

    pub(crate) fn entries(
        &self,
        table: RegistryTable,
        after: Option<&Name>,
        n: usize,
        now: Time,
    ) -> Vec<RegistryEntry> {
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
        self.dependencies.group(id)
    }

    pub(crate) fn groups(&self, before: Option<GroupId>, n: usize) -> Vec<GroupRow> {
        self.dependencies.groups_before(before, n)
    }
}
