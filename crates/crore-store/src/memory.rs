//! The memory store, the reference that every other store is compared with.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crore_core::group::Group;
use crore_core::{
    Batch, Clock, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, Span, Time,
};

use crate::events::{Released, SendResult};
use crate::jobs::{Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite};
use crate::local::{LocalIndex, MemoryRecords, SeriesSnapshot};
use crate::registry::{Define, Defined, QueueSettings, RegistryEntry, RegistryTable};
use crate::upkeep::{Lapses, Lead, Promoted, Pruned};
use crate::views::{
    GroupRow, HeldBack, JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note,
    PausedKey, RequiredVersion, ShareCount, StatStep,
};
use crate::{
    Committed, Error, Events, Jobs, Registry, Store, StoreFuture, StoreId, SystemClock, Upkeep,
    Views, WakeHook,
};

/// A store that loses everything when it is dropped (durability class D0).
///
/// Every operation completes before it returns its future, under one lock that is never held across
/// an await.
pub struct Memory {
    id: StoreId,
    clock: Arc<dyn Clock>,
    local: Mutex<(LocalIndex<MemoryRecords>, Time)>,
    hooks: RwLock<Vec<WakeHook>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl Memory {
    /// Creates an empty store that uses this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { id: StoreId::draw(), clock, local: Mutex::default(), hooks: RwLock::default() }
    }

    /// Sets the default settings for queues without settings of their own.
    #[must_use]
    pub fn with_queues(self, settings: QueueSettings) -> Self {
        let mut local = self.local.into_inner().unwrap_or_else(PoisonError::into_inner);
        local.0.set_defaults(settings);
        Self { local: Mutex::new(local), ..self }
    }

    /// Runs an operation and calls the wake hooks for queues with new ready jobs.
    ///
    /// A panic inside an operation may leave the index inconsistent, so the store refuses every
    /// later one.
    fn run<T>(
        &self,
        operation: impl FnOnce(&mut LocalIndex<MemoryRecords>, Time) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (result, woken) = {
            let mut guard = self.local.lock().map_err(|_| Error::Poisoned)?;
            let (local, last) = &mut *guard;
            // The store's time never goes back, so later pushes never sort before earlier ones.
            *last = (*last).max(self.clock.now());
            let result = operation(local, *last);
            local.take_touched();
            (result, local.take_woken())
        };
        self.wake(&woken);
        result
    }

    fn wake(&self, woken: &[Name]) {
        if woken.is_empty() {
            return;
        }
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().for_each(|hook| hook(woken));
    }

    /// Runs an operation whose result is committed: this store has no later durability to wait for.
    #[expect(
        clippy::disallowed_methods,
        reason = "the result is in memory, which is all that D0 promises"
    )]
    fn committed<T>(
        &self,
        operation: impl FnOnce(&mut LocalIndex<MemoryRecords>, Time) -> Result<T, Error>,
    ) -> Result<Committed<T>, Error> {
        self.run(operation).map(Committed::synced)
    }
}

fn ready_future<'a, T: Send + 'a>(result: Result<T, Error>) -> StoreFuture<'a, T> {
    Box::pin(ready(result))
}

impl Jobs for Memory {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        ready_future(self.committed(|local, now| local.push(batch, now)))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Claimed> {
        ready_future(self.run(|local, now| local.claim(&request, now)))
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        ready_future(self.run(|local, now| local.renew(&leases, now)))
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        ready_future(self.committed(|local, now| local.apply(writes, now)))
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        ready_future(self.run(|local, now| local.get(&which, now)))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        ready_future(self.run(|local, now| Ok(local.holders(&keys, now))))
    }
}

impl Events for Memory {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        ready_future(self.committed(|local, now| Ok(local.send(event, caps, now))))
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        ready_future(self.run(|local, now| local.release(n, now)))
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        ready_future(self.run(|local, now| Ok(local.event(&name, now))))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        ready_future(self.run(|local, now| Ok(local.event_list(after.as_ref(), n, now))))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        ready_future(self.committed(|local, now| Ok(local.remove_event(&name, now))))
    }
}

impl Upkeep for Memory {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        ready_future(self.run(|local, now| local.promote(n, now)))
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        ready_future(self.run(|local, now| local.lapsed(n, now)))
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        ready_future(self.run(|local, now| local.prune(n, now)))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        ready_future(self.run(|local, now| Ok(local.lead(duty, node, span, now))))
    }
}

impl Views for Memory {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        ready_future(self.run(|local, now| local.note(&notes, now)))
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        ready_future(self.run(|local, _| Ok(local.notes(id))))
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        ready_future(self.run(|local, now| local.list(&query, now)))
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        ready_future(self.run(|local, _| Ok(local.counts(queue.as_ref()))))
    }

    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        ready_future(self.run(|local, _| Ok(local.required_versions(queue.as_ref()))))
    }

    fn has_index(&self) -> bool {
        true
    }

    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        ready_future(self.run(|local, now| Ok(local.paused_keys(limit.as_ref(), n, now))))
    }

    fn held_back(&self, queue: Option<Name>, n: usize) -> StoreFuture<'_, Vec<HeldBack>> {
        ready_future(self.run(|local, now| Ok(local.held_back(queue.as_ref(), n, now))))
    }

    fn oldest_ready(&self, queues: Vec<Name>) -> StoreFuture<'_, Vec<Option<Time>>> {
        ready_future(self.run(|local, _| Ok(local.oldest_ready(&queues))))
    }

    fn largest_shares(&self, queue: Name, n: usize) -> StoreFuture<'_, Vec<ShareCount>> {
        ready_future(self.run(|local, _| local.largest_shares(&queue, n)))
    }

    fn groups(&self, before: Option<GroupId>, n: usize) -> StoreFuture<'_, Vec<GroupRow>> {
        ready_future(self.run(|local, _| Ok(local.groups(before, n))))
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        ready_future(self.run(|local, now| Ok(local.stats(&series, step, now))))
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        let selected = self.run(|local, now| Ok(local.job_stats(&query, now)));
        ready_future(selected.map(SeriesSnapshot::rows))
    }
}

impl Registry for Memory {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        ready_future(self.committed(|local, now| Ok(local.define(&definitions, now))))
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        ready_future(self.run(|local, now| Ok(local.entries(table, after.as_ref(), n, now))))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        ready_future(self.run(|local, _| Ok(local.group(id))))
    }
}

impl Store for Memory {
    fn add_wake_hook(&self, hook: WakeHook) {
        self.hooks.write().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    fn store_id(&self) -> StoreId {
        self.id
    }

    fn is_local(&self) -> bool {
        true
    }
}
