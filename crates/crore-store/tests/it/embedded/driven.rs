//! An embedded store without threads: each operation drives the committer and the keeper, and the
//! store is closed or dropped and reopened at intervals.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crore_core::group::Group;
use crore_core::{
    Batch, Clock, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, Span, Time,
};
use crore_store::WakeHook;
use crore_store::embedded::disk::{Disk, MemoryDisk};
use crore_store::embedded::{Embedded, Options};
use crore_store::events::{Released, SendResult};
use crore_store::jobs::{
    Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{
    GroupRow, HeldBack, JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note,
    PausedKey, RequiredVersion, ShareCount, StatStep,
};
use crore_store::{
    Committed, Error, Events, Jobs, Registry, Store, StoreFuture, StoreId, Upkeep, Views,
};

/// When the store is reopened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reopen {
    Never,
    /// After this many operations; every second time it is dropped instead of closed.
    Every(u32),
}

#[derive(Debug)]
pub(crate) struct Driven {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
    reopen: Reopen,
    inner: Mutex<Inner>,
}

struct Inner {
    store: Option<Embedded>,
    hooks: Vec<WakeHook>,
    verbs: u32,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("verbs", &self.verbs).finish_non_exhaustive()
    }
}

impl Driven {
    pub(crate) fn new(clock: Arc<dyn Clock>, options: Options, reopen: Reopen) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let inner = Mutex::new(Inner { store: None, hooks: Vec::new(), verbs: 0 });
        Self { disk, clock, options, reopen, inner }
    }

    /// Returns the store, reopened if it is due.
    fn store(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.verbs += 1;
        let over = match self.reopen {
            Reopen::Never => false,
            Reopen::Every(n) => inner.verbs.is_multiple_of(n),
        };
        if over && let Some(store) = inner.store.take() {
            if (inner.verbs / 2).is_multiple_of(2) {
                store.close().expect("closed");
            } else {
                // This test does not lose lazy operations.
                while store.commit_once().expect("committed") {}
            }
        }
        if inner.store.is_none() {
            let disk = Arc::clone(&self.disk);
            let store = Embedded::open_on(disk, Arc::clone(&self.clock), self.options.clone());
            let store = store.expect("opened");
            inner.hooks.iter().for_each(|hook| store.add_wake_hook(Arc::clone(hook)));
            inner.store = Some(store);
        }
        inner
    }

    /// Runs an operation and everything that its answer waits for.
    fn drive<'a, T: Send + 'a>(
        &self,
        verb: impl FnOnce(&Embedded) -> StoreFuture<'_, T>,
    ) -> StoreFuture<'a, T> {
        let inner = self.store();
        let store = inner.store.as_ref().expect("opened");
        let answer = run(store, verb(store));
        while store.commit_once().expect("committed") {}
        store.maintain_once().expect("kept");
        Box::pin(ready(answer))
    }
}

/// Polls an answer until it is ready.
pub(crate) fn run<T>(store: &Embedded, mut answer: StoreFuture<'_, T>) -> Result<T, Error> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
            return answer;
        }
        store.commit_once()?;
    }
    panic!("no response although everything is committed");
}

impl Jobs for Driven {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        self.drive(|store| store.push(batch))
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        self.drive(|store| store.claim(ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        self.drive(|store| store.renew(leases))
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.drive(|store| store.apply(writes))
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.drive(|store| store.get(which))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.drive(|store| store.holders(keys))
    }
}

impl Events for Driven {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        self.drive(|store| store.send(event, caps))
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        self.drive(|store| store.release(n))
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.drive(|store| store.event(name))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.drive(|store| store.events(after, n))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        self.drive(|store| store.remove_event(name))
    }
}

impl Upkeep for Driven {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        self.drive(|store| store.promote(n))
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.drive(|store| store.lapsed(n))
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        self.drive(|store| store.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        self.drive(|store| store.lead(duty, node, span))
    }
}

impl Views for Driven {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        self.drive(|store| store.note(notes))
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.drive(|store| store.notes(id))
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.drive(|store| store.list(query))
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.drive(|store| store.counts(queue))
    }

    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        self.drive(|store| store.required_versions(queue))
    }

    fn has_index(&self) -> bool {
        true
    }

    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        self.drive(|store| store.paused_keys(limit, n))
    }

    fn held_back(&self, queue: Option<Name>, n: usize) -> StoreFuture<'_, Vec<HeldBack>> {
        self.drive(|store| store.held_back(queue, n))
    }

    fn oldest_ready(&self, queues: Vec<Name>) -> StoreFuture<'_, Vec<Option<Time>>> {
        self.drive(|store| store.oldest_ready(queues))
    }

    fn largest_shares(&self, queue: Name, n: usize) -> StoreFuture<'_, Vec<ShareCount>> {
        self.drive(|store| store.largest_shares(queue, n))
    }

    fn groups(&self, before: Option<GroupId>, n: usize) -> StoreFuture<'_, Vec<GroupRow>> {
        self.drive(|store| store.groups(before, n))
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.drive(|store| store.stats(series, step))
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        self.drive(|store| store.job_stats(query))
    }
}

impl Registry for Driven {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        self.drive(|store| store.define(definitions))
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.drive(|store| store.entries(table, after, n))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.drive(|store| store.group(id))
    }
}

impl Store for Driven {
    fn store_id(&self) -> StoreId {
        self.store().store.as_ref().expect("opened").store_id()
    }

    fn add_wake_hook(&self, hook: WakeHook) {
        let mut inner = self.store();
        if let Some(store) = &inner.store {
            store.add_wake_hook(Arc::clone(&hook));
        }
        inner.hooks.push(hook);
    }
}
