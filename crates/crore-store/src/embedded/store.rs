//! The embedded store: opening, closing, and every store operation.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crore_core::group::Group;
use crore_core::{
    Batch, Clock, EventCaps, GroupId, Job, JobId, KeptEvent, Live, Name, NewEvent, Span, Time,
};

use super::commit::SyncMode;
use super::disk::{Directory, Disk, in_memory_file_system};
use super::inner::{EmbeddedInner, OperationResult, WaitsForCommit};
use super::keeper::StoreLoad;
use super::log::Log;
use super::options::{DurabilityMode as When, Options};
use super::recover::OpenReport;
use super::space_needs::SpaceNeeds;
use crate::bug::planted;
use crate::events::{Released, SendResult};
use crate::jobs::{Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite};
use crate::local::LocalIndex;
use crate::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crate::upkeep::{Lapses, Lead, Promoted, Pruned};
use crate::views::{
    GroupRow, HeldBack, JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note,
    PausedKey, RequiredVersion, ShareCount, StatStep,
};
use crate::{Committed, Durability, Error, StoreFuture, StoreId, StoreMetrics, StoreProblem};
use crate::{Events, Jobs, Registry, Store, Upkeep, Views, WakeHook};

/// Generous estimate of the log bytes of one renewal.
const LEASE_BYTES: u64 = 1024;

/// The embedded store: durable, in one directory, for one process at a time.
#[derive(Debug)]
pub struct Embedded {
    inner: Arc<EmbeddedInner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    open_report: OpenReport,
    /// Whether a power failure loses the directory.
    is_in_memory: bool,
}

/// Problems of an open store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreHealth {
    /// A write failed; the store refuses everything until it is reopened.
    pub is_poisoned: bool,
    /// Why new jobs are refused, if they are.
    pub full: Option<String>,
    /// Why the oldest segment cannot be released, if it cannot; the log grows until it is repaired.
    pub stuck: Option<String>,
}

impl Embedded {
    /// Opens the store in a directory, creating the directory if needed. Two background threads run
    /// until the store is [closed](Self::close) or dropped.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, Error> {
        let disk = Directory::open(dir).map_err(|error| Error::Unavailable(Box::new(error)))?;
        let mut store = Self::open_on(Arc::new(disk), clock, options)?;
        store.is_in_memory = in_memory_file_system(dir).is_some();
        let inner = Arc::clone(&store.inner);
        let start = |name: &str, work: fn(&EmbeddedInner)| {
            let inner = Arc::clone(&inner);
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&inner));
            thread.map_err(|error| Error::Unavailable(Box::new(error)))
        };
        let threads = [
            start("crore-commit", EmbeddedInner::run_committer)?,
            start("crore-keep", EmbeddedInner::run_keeper)?,
        ];
        store.threads.lock().unwrap_or_else(PoisonError::into_inner).extend(threads);
        Ok(store)
    }

    /// Opens a store on any disk, without threads. The caller drives it with [`Self::commit_once`]
    /// and [`Self::maintain_once`]; no operation resolves without them.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let seed = RandomState::new().hash_one(clock.now().as_millis());
        let (inner, found) = EmbeddedInner::open(disk, clock, options, seed)?;
        let (inner, threads) = (Arc::new(inner), Mutex::default());
        Ok(Self { inner, threads, open_report: found, is_in_memory: false })
    }

    pub(crate) fn inner(&self) -> &EmbeddedInner {
        &self.inner
    }

    /// Live state of a job at this moment, without waiting for a commit: a crash may still revert
    /// it. For diagnostics and tests; callers read jobs with [`Jobs::get`].
    pub fn peek(&self, id: JobId) -> Option<Live> {
        let state = self.inner.lock().ok()?;
        Some(state.local.load(id).ok()??.job.live)
    }

    /// Findings of the opening.
    pub const fn open_report(&self) -> &OpenReport {
        &self.open_report
    }

    /// Current problems; all fields are empty in a healthy store.
    pub fn health(&self) -> StoreHealth {
        let keeper = self.inner.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = keeper.stuck.clone();
        drop(keeper);
        let full = self.inner.lock().map(|state| state.full.clone());
        StoreHealth { is_poisoned: full.is_err(), full: full.ok().flatten(), stuck }
    }

    /// Makes the pending commit durable; returns whether there was one. An error poisons the store.
    pub fn commit_once(&self) -> Result<bool, Error> {
        self.inner.commit_once(SyncMode::AsConfigured)
    }

    /// Does one step of background work: prepares a file, moves part of an old segment, releases a
    /// file, or writes a hint. Returns whether there was anything to do. An error poisons the
    /// store.
    pub fn maintain_once(&self) -> Result<bool, Error> {
        self.inner.maintain_once(StoreLoad::Idle)
    }

    /// Closes the store: writes everything, and refuses every later operation. Closing twice does
    /// nothing. Dropping the store releases the directory for other processes.
    pub fn close(&self) -> Result<(), Error> {
        if !self.stop() {
            return Ok(());
        }
        self.inner.lock()?.local.records_mut().append_closed();
        self.inner.commit_once(SyncMode::Now).map(|_| ())
    }

    /// Stops the threads; returns whether the store was open.
    fn stop(&self) -> bool {
        let was_open = match self.inner.state.lock() {
            Ok(mut state) => !std::mem::replace(&mut state.stopping, true),
            Err(_) => false,
        };
        self.inner.committer_wakeup.notify_all();
        self.inner.keeper_wakeup.notify_all();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic in a thread has already poisoned the store.
            let _ = thread.join();
        }
        was_open
    }

    /// Runs an operation and resolves when its commit is durable.
    #[expect(clippy::disallowed_methods, reason = "the commit is durable here")]
    fn run_durable<'a, T: Send + 'a>(
        &'a self,
        needs: SpaceNeeds,
        operation: impl FnOnce(&mut LocalIndex<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> StoreFuture<'a, Committed<T>> {
        Box::pin(async move {
            let OperationResult { value, commit } =
                self.inner.run(needs, WaitsForCommit::Yes, operation).await?;
            self.inner.durable.wait(commit).await?;
            Ok(Committed::synced(value))
        })
    }

    /// Runs an operation and resolves when its commit, and every commit that it read from, is
    /// durable.
    fn run_waited<'a, T: Send + 'a>(
        &'a self,
        needs: SpaceNeeds,
        operation: impl FnOnce(&mut LocalIndex<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let OperationResult { value, commit } =
                self.inner.run(needs, WaitsForCommit::Yes, operation).await?;
            self.inner.durable.wait(commit).await?;
            Ok(value)
        })
    }

    /// Runs a read. It shows nothing that a crash could revert.
    fn read<'a, T: Send + 'a>(
        &'a self,
        operation: impl FnOnce(&mut LocalIndex<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        self.run_waited(SpaceNeeds::Nothing, operation)
    }

    /// Runs an operation without waiting for its commit.
    fn run_lazy<'a, T: Send + 'a>(
        &'a self,
        needs: SpaceNeeds,
        operation: impl FnOnce(&mut LocalIndex<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(
            async move { Ok(self.inner.run(needs, WaitsForCommit::No, operation).await?.value) },
        )
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Renews a prefix of the leases: at least one, then until about `bytes` bytes are appended.
fn renew_prefix(
    local: &mut LocalIndex<Log>,
    leases: &[Renew],
    bytes: u64,
    now: Time,
) -> Result<Vec<Renewed>, Error> {
    let end = local.records().pending.len() + bytes;
    let mut renewed = Vec::with_capacity(leases.len());
    for lease in leases {
        renewed.extend(local.renew(std::slice::from_ref(lease), now)?);
        if local.records().pending.len() >= end {
            break;
        }
    }
    Ok(renewed)
}

impl Jobs for Embedded {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        self.run_durable(SpaceNeeds::for_push(&batch.jobs), |local, now| local.push(batch, now))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Claimed> {
        let needs = SpaceNeeds::for_changes(request.n);
        // The claim itself may be lost in a crash; the pushes of the claimed jobs must be durable.
        let claim = move |local: &mut LocalIndex<Log>, now| {
            let claimed = local.claim(&request, now)?;
            Ok((claimed, local.records_mut().take_shown()))
        };
        Box::pin(async move {
            let ran = self.inner.run(needs, WaitsForCommit::No, claim).await?;
            let (claimed, shown) = ran.value;
            if !planted!("bug-20") {
                self.inner.durable.wait(shown).await?;
            }
            Ok(claimed)
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        Box::pin(async move {
            let mut renewed = Vec::with_capacity(leases.len());
            while let Some(rest) = leases.get(renewed.len()..).filter(|rest| !rest.is_empty()) {
                let bytes = (rest.len() as u64 * LEASE_BYTES).min(self.inner.max_slice_bytes());
                let slice =
                    |local: &mut LocalIndex<Log>, now| renew_prefix(local, rest, bytes / 2, now);
                let ran =
                    self.inner.run(SpaceNeeds::Optional(bytes), WaitsForCommit::No, slice).await?;
                renewed.extend(ran.value);
            }
            Ok(renewed)
        })
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.run_durable(SpaceNeeds::for_apply(&writes), |local, now| local.apply(writes, now))
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.read(move |local, now| local.get(&which, now))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.read(move |local, now| Ok(local.holders(&keys, now)))
    }
}

impl Events for Embedded {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        let needs = SpaceNeeds::for_event(&event);
        self.run_durable(needs, move |local, now| Ok(local.send(event, caps, now)))
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        // Each slice is durable before the next one, so that the commits of other calls stay short.
        let needs = SpaceNeeds::for_changes(n);
        self.run_waited(needs, move |local, now| local.release(n, now))
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.read(move |local, now| Ok(local.event(&name, now)))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.read(move |local, now| Ok(local.event_list(after.as_ref(), n, now)))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        self.run_durable(SpaceNeeds::for_changes(1), move |local, now| {
            Ok(local.remove_event(&name, now))
        })
    }
}

impl Upkeep for Embedded {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        let needs = SpaceNeeds::for_changes(n);
        self.run_lazy(needs, move |local, now| local.promote(n, now))
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.read(move |local, now| local.lapsed(n, now))
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        let needs = SpaceNeeds::for_changes(n);
        self.run_waited(needs, move |local, now| local.prune(n, now))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        self.run_lazy(SpaceNeeds::Reserve(0), move |local, now| {
            Ok(local.lead(duty, node, span, now))
        })
    }
}

impl Views for Embedded {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        self.run_lazy(SpaceNeeds::for_notes(&notes), move |local, now| local.note(&notes, now))
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.read(move |local, _| Ok(local.notes(id)))
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.read(move |local, now| local.list(&query, now))
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.read(move |local, _| Ok(local.counts(queue.as_ref())))
    }

    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        self.read(move |local, _| Ok(local.required_versions(queue.as_ref())))
    }

    fn has_index(&self) -> bool {
        true
    }

    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        self.read(move |local, now| Ok(local.paused_keys(limit.as_ref(), n, now)))
    }

    fn held_back(&self, queue: Option<Name>, n: usize) -> StoreFuture<'_, Vec<HeldBack>> {
        self.read(move |local, now| Ok(local.held_back(queue.as_ref(), n, now)))
    }

    fn oldest_ready(&self, queues: Vec<Name>) -> StoreFuture<'_, Vec<Option<Time>>> {
        self.read(move |local, _| Ok(local.oldest_ready(&queues)))
    }

    fn largest_shares(&self, queue: Name, n: usize) -> StoreFuture<'_, Vec<ShareCount>> {
        self.read(move |local, _| local.largest_shares(&queue, n))
    }

    fn groups(&self, before: Option<GroupId>, n: usize) -> StoreFuture<'_, Vec<GroupRow>> {
        self.read(move |local, _| Ok(local.groups(before, n)))
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.read(move |local, now| Ok(local.stats(&series, step, now)))
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        let selected = self.read(move |local, now| Ok(local.job_stats(&query, now)));
        Box::pin(async move { Ok(selected.await?.rows()) })
    }
}

impl Registry for Embedded {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        let needs = SpaceNeeds::Reserve(0);
        self.run_durable(needs, move |local, now| Ok(local.define(&definitions, now)))
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.read(move |local, now| Ok(local.entries(table, after.as_ref(), n, now)))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.read(move |local, _| Ok(local.group(id)))
    }
}

impl Store for Embedded {
    fn add_wake_hook(&self, hook: WakeHook) {
        self.inner.hooks.add(hook);
    }

    fn store_id(&self) -> StoreId {
        self.inner.id
    }

    fn is_local(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        match self.inner.options.durability {
            When::Always if !self.is_in_memory => Durability::Power,
            When::Always | When::Interval | When::None => Durability::Process,
        }
    }

    fn problem(&self) -> Option<StoreProblem> {
        let health = self.health();
        match health.is_poisoned {
            true => Some(StoreProblem::Poisoned),
            false => health.full.map(StoreProblem::Full),
        }
    }

    fn poisoned(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(self.inner.durable.poisoned())
    }

    fn metrics(&self) -> Option<StoreMetrics> {
        let is_stuck = self.health().stuck.is_some();
        // The file sizes of a poisoned store are unknown.
        let sizes = self.inner.lock().map(|state| {
            let log = state.local.records();
            (log.bytes_on_disk(), log.live_bytes(), log.segment_count())
        });
        let (bytes_on_disk, live_bytes, segments) = sizes.unwrap_or_default();
        let counted = self.inner.counters.snapshot();
        Some(StoreMetrics { bytes_on_disk, live_bytes, segments, is_stuck, ..counted })
    }
}
