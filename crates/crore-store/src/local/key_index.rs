//! Jobs by index key: the labels, errors and payload fields by which a search finds them.
//!
//! Each partition has one sorted set of its jobs with keys. A job has an entry for each of its keys, at the position of
//! its state; jobs without labels, errors and indexed fields have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use crore_core::{IndexKey, Job, JobId, Spec, State, Time};

use super::LocalIndex;
use super::index_position::IndexPosition;
use super::sorted_run::RunSlot;
use crate::bug::planted;

/// A job under a key. Its order is that of the lists: by state, then as the state is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyEntry {
    key: IndexKey,
    state: State,
    /// Zero unless the job is ready.
    priority: i32,
    slot: RunSlot,
}

impl KeyEntry {
    fn of(key: IndexKey, position: &IndexPosition) -> Self {
        let IndexPosition { state, priority, slot, .. } = *position;
        let priority = if state == State::Ready { priority } else { 0 };
        Self { key, state, priority, slot }
    }

    /// Before every entry of a key and state.
    const fn first(key: IndexKey, state: State) -> Self {
        let slot = RunSlot { at: Time::ZERO, id: JobId(0) };
        Self { key, state, priority: i32::MIN, slot }
    }

    /// Behind every entry of a key and state.
    const fn last(key: IndexKey, state: State) -> Self {
        let slot = RunSlot { at: Time::MAX, id: JobId(u64::MAX) };
        Self { key, state, priority: i32::MAX, slot }
    }
}

/// The jobs of a partition by key.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex(BTreeSet<KeyEntry>);

impl KeyIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The jobs under a key in a state, in the order of the state, behind `after`.
    pub(super) fn list(
        &self,
        key: IndexKey,
        state: State,
        after: Option<(i32, RunSlot)>,
    ) -> Box<dyn Iterator<Item = (i32, RunSlot)> + '_> {
        use std::ops::Bound::{Excluded, Included};
        let at = after.map(|(priority, slot)| KeyEntry { key, state, priority, slot });
        let (first, last) = (KeyEntry::first(key, state), KeyEntry::last(key, state));
        let found = |entry: &KeyEntry| (entry.priority, entry.slot);
        if state.has_ended() {
            let upto = at.map_or(Included(last), Excluded);
            return Box::new(self.0.range((Included(first), upto)).rev().map(found));
        }
        let from = at.map_or(Included(first), Excluded);
        Box::new(self.0.range((from, Included(last))).map(found))
    }
}

/// Whether a job has keys.
pub(super) fn has_keys(job: &Job) -> bool {
    let Spec { labels, index, .. } = &*job.spec;
    !labels.is_empty() || index.is_some() || job.live.newest_error().is_some()
}

/// The keys of a job. A plain job has none, which costs no allocation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SearchKeys {
    of_spec: Vec<IndexKey>,
    of_error: Option<IndexKey>,
}

impl SearchKeys {
    pub(super) fn of(job: &Job) -> Self {
        Self {
            of_spec: IndexKey::of_spec(&job.spec).collect(),
            of_error: IndexKey::of_newest_error(&job.live),
        }
    }

    const fn is_empty(&self) -> bool {
        self.of_spec.is_empty() && self.of_error.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = IndexKey> {
        self.of_spec.iter().copied().chain(self.of_error)
    }
}

/// The keys of a job before a change, and the error that one of them follows from. Keys are computed again only if the
/// definition or this error has changed.
#[derive(Debug, Default)]
pub(super) struct KeySource {
    keys: SearchKeys,
    error: Option<Arc<str>>,
}

impl KeySource {
    /// `None`: the job has no keys.
    pub(super) fn of(job: &Job) -> Option<Self> {
        let of = || Self { keys: SearchKeys::of(job), error: job.live.newest_error().cloned() };
        has_keys(job).then(of)
    }

    /// The keys before a change, and those behind it, if they differ.
    pub(super) fn after(self, job: &Job, is_new_spec: bool) -> (SearchKeys, Option<SearchKeys>) {
        let has_same_error = match (&self.error, job.live.newest_error()) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        let is_same = has_same_error && !is_new_spec || planted!("bug-61") && is_new_spec;
        let after = (!is_same).then(|| SearchKeys::of(job));
        (self.keys, after)
    }
}

impl<R> LocalIndex<R> {
    fn keys_of_partition(&mut self, lane: u32) -> &mut BTreeSet<KeyEntry> {
        let partition = self.lanes.lanes.at(lane).partition;
        &mut self.lanes.partitions.at_mut(partition).keys.0
    }

    /// Enters a job under its keys.
    pub(super) fn insert_keys(&mut self, position: &IndexPosition, keys: &SearchKeys) {
        if !keys.is_empty() {
            let entries = keys.iter().map(|key| KeyEntry::of(key, position));
            self.keys_of_partition(position.lane).extend(entries);
        }
    }

    /// Removes a job from under its keys.
    pub(super) fn remove_keys(&mut self, position: &IndexPosition, keys: &SearchKeys) {
        if !keys.is_empty() {
            let entries = self.keys_of_partition(position.lane);
            for key in keys.iter() {
                entries.remove(&KeyEntry::of(key, position));
            }
        }
    }

    /// Moves a job whose position or keys have changed; `after` are its new keys, if they differ.
    pub(super) fn move_keys(
        &mut self,
        (from, to): (&IndexPosition, &IndexPosition),
        (before, after): (&SearchKeys, Option<&SearchKeys>),
    ) {
        if after.is_none()
            && KeyEntry::of(IndexKey(0), from) == KeyEntry::of(IndexKey(0), to)
            && from.lane == to.lane
        {
            return;
        }
        if !(planted!("bug-60") && to.state == State::Dead) {
            self.remove_keys(from, before);
        }
        self.insert_keys(to, after.unwrap_or(before));
    }

    /// Removes a job whose record, and with it its keys, is unreadable. Examines all entries of its partition.
    pub(super) fn remove_unreadable_keys(&mut self, position: &IndexPosition) {
        let id = position.slot.id;
        self.keys_of_partition(position.lane).retain(|entry| entry.slot.id != id);
    }

    /// Enters a restored job under its keys.
    pub(crate) fn restore_keys(&mut self, position: &IndexPosition, keys: &[IndexKey]) {
        if !planted!("bug-62") {
            let entries = keys.iter().map(|key| KeyEntry::of(*key, position));
            self.keys_of_partition(position.lane).extend(entries);
        }
    }
}
