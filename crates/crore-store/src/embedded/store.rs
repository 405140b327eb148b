//! The store's verbs, and its life: open, close.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crore_core::group::Group;
use crore_core::{Batch, Clock, GroupId, Job, JobId, Live, Name, Span, Time};

use super::commit::Sync;
use super::disk::{Directory, Disk};
use super::inner::{Did, Inner, Waits};
use super::keep::Busy;
use super::log::Log;
use super::needs::Needs;
use super::options::{Durability as When, Options};
use super::recover::Found;
use crate::bug::planted;
use crate::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crate::local::Local;
use crate::registry::{Define, Defined, Entry, Table};
use crate::upkeep::{Lapses, Lead, Promoted, Pruned};
use crate::views::{Count, JobNotes, Note, Page, Query, Step};
use crate::{Ailment, Answer, Committed, Durability, Error, Vitals};
use crate::{Jobs, Registry, Store, Upkeep, Views, WakeHook};

/// More than a renewal mostly takes in the log.
const LEASE_BYTES: u64 = 1024;

/// The embedded store: durable, in one directory, for one process at a time.
#[derive(Debug)]
pub struct Embedded {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    found: Found,
}

/// What ails an open store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Nothing is promised any more; the store has to be opened anew.
    pub is_poisoned: bool,
    /// Why there is no room for anything new.
    pub full: Option<String>,
    /// Why the oldest part of the log cannot be given up, so that the log grows until it is repaired.
    pub stuck: Option<String>,
}

impl Embedded {
    /// Opens the store in a directory, which is made if it is not there. Two threads of its own do
    /// what is to be done until it is [closed](Self::close) or dropped.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, Error> {
        let disk = Directory::open(dir).map_err(|error| Error::Unavailable(Box::new(error)))?;
        let store = Self::open_on(Arc::new(disk), clock, options)?;
        let inner = Arc::clone(&store.inner);
        let start = |name: &str, work: fn(&Inner)| {
            let inner = Arc::clone(&inner);
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&inner));
            thread.map_err(|error| Error::Unavailable(Box::new(error)))
        };
        let threads = [
            start("crore-commit", Inner::commit_until_stopped)?,
            start("crore-keep", Inner::keep_until_stopped)?,
        ];
        store.threads.lock().unwrap_or_else(PoisonError::into_inner).extend(threads);
        Ok(store)
    }

    /// Opens a store on any disk, without threads: whoever opens it calls [`Self::commit_once`] and
    /// [`Self::keep_once`], and nothing is answered before.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let seed = RandomState::new().hash_one(clock.now().as_millis());
        let (inner, found) = Inner::open(disk, clock, options, seed)?;
        Ok(Self { inner: Arc::new(inner), threads: Mutex::default(), found })
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// The live state of a job at this moment, without waiting for a commit: a crash may still take it
    /// back. For diagnostics and tests; callers read jobs with [`Jobs::get`].
    pub fn peek(&self, id: JobId) -> Option<Live> {
        let state = self.inner.lock().ok()?;
        Some(state.local.load(id).ok()??.job.live)
    }

    /// What was found when the store was opened.
    pub const fn found(&self) -> &Found {
        &self.found
    }

    /// What ails the store; a sound one has nothing to say.
    pub fn health(&self) -> Health {
        let keeper = self.inner.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = keeper.stuck.clone();
        drop(keeper);
        let full = self.inner.lock().map(|state| state.full.clone());
        Health { is_poisoned: full.is_err(), full: full.ok().flatten(), stuck }
    }

    /// Makes durable what was gathered so far; says whether there was anything. An error is the end
    /// of the store.
    pub fn commit_once(&self) -> Result<bool, Error> {
        self.inner.commit_once(Sync::AsUsual)
    }

    /// Does one piece of what nobody waits for: makes a file ready, moves what is left in an old one,
    /// gives one up, writes a hint. Says whether there was anything to do. An error is the end of the
    /// store.
    pub fn keep_once(&self) -> Result<bool, Error> {
        self.inner.keep_once(Busy::No)
    }

    /// Ends the store: everything is on the disk then, the next open finds it as it was, and every
    /// verb is refused. To close it twice does nothing. The directory is free for another process when
    /// the store is dropped.
    pub fn close(&self) -> Result<(), Error> {
        if !self.stop() {
            return Ok(());
        }
        self.inner.lock()?.local.records_mut().append_closed();
        self.inner.commit_once(Sync::Now).map(|_| ())
    }

    /// Ends the threads; says whether the store was open.
    fn stop(&self) -> bool {
        let was_open = match self.inner.state.lock() {
            Ok(mut state) => !std::mem::replace(&mut state.stopping, true),
            Err(_) => false,
        };
        self.inner.to_commit.notify_all();
        self.inner.to_keep.notify_all();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A thread that panicked has poisoned the store, which is what its end means.
            let _ = thread.join();
        }
        was_open
    }

    /// The answer to a verb that a caller builds on.
    #[expect(clippy::disallowed_methods, reason = "this is the sync that hands it out")]
    fn durable<'a, T: Send + 'a>(
        &'a self,
        needs: Needs,
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> Answer<'a, Committed<T>> {
        Box::pin(async move {
            let Did { answer, commit } = self.inner.verb(needs, Waits::Yes, verb).await?;
            self.inner.durable.wait(commit).await?;
            Ok(Committed::synced(answer))
        })
    }

    /// The answer to a verb that is waited for: it comes when nothing of it can be taken back any
    /// more, nor of what it saw.
    fn waited<'a, T: Send + 'a>(
        &'a self,
        needs: Needs,
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let Did { answer, commit } = self.inner.verb(needs, Waits::Yes, verb).await?;
            self.inner.durable.wait(commit).await?;
            Ok(answer)
        })
    }

    /// The answer to a look: it shows nothing that a crash could take back.
    fn look<'a, T: Send + 'a>(
        &'a self,
        look: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> Answer<'a, T> {
        self.waited(Needs::Nothing, look)
    }

    /// The answer to a verb that is not waited for.
    fn lazy<'a, T: Send + 'a>(
        &'a self,
        needs: Needs,
        verb: impl FnOnce(&mut Local<Log>, Time) -> Result<T, Error> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move { Ok(self.inner.verb(needs, Waits::No, verb).await?.answer) })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Renews the first of some leases: at least one, and as many as take so many bytes in the log.
fn renew_some(
    local: &mut Local<Log>,
    leases: &[Renew],
    bytes: u64,
    now: Time,
) -> Result<Vec<Renewed>, Error> {
    let end = local.records().tail.len() + bytes;
    let mut renewed = Vec::with_capacity(leases.len());
    for lease in leases {
        renewed.extend(local.renew(std::slice::from_ref(lease), now)?);
        if local.records().tail.len() >= end {
            break;
        }
    }
    Ok(renewed)
}

impl Jobs for Embedded {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        self.durable(Needs::room(&batch.jobs), |local, now| local.push(batch, now))
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        let needs = Needs::changes(ask.n);
        // The claim itself is not waited for, but that the jobs are there is.
        let claim = move |local: &mut Local<Log>, now| {
            let claimed = local.claim(&ask, now)?;
            Ok((claimed, local.records_mut().take_shown()))
        };
        Box::pin(async move {
            let did = self.inner.verb(needs, Waits::No, claim).await?;
            let (claimed, shown) = did.answer;
            if !planted!("bug-20") {
                self.inner.durable.wait(shown).await?;
            }
            Ok(claimed)
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        Box::pin(async move {
            let mut renewed = Vec::with_capacity(leases.len());
            while let Some(rest) = leases.get(renewed.len()..).filter(|rest| !rest.is_empty()) {
                let bytes = (rest.len() as u64 * LEASE_BYTES).min(self.inner.most_in_a_slice());
                let slice = |local: &mut Local<Log>, now| renew_some(local, rest, bytes / 2, now);
                let did = self.inner.verb(Needs::Fit(bytes), Waits::No, slice).await?;
                renewed.extend(did.answer);
            }
            Ok(renewed)
        })
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.durable(Needs::reserve(&writes), |local, now| local.apply(writes, now))
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.look(move |local, now| local.get(&which, now))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        self.look(move |local, now| Ok(local.holders(&keys, now)))
    }
}

impl Upkeep for Embedded {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        let needs = Needs::changes(n);
        self.lazy(needs, move |local, now| local.promote(n, now))
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        self.look(move |local, now| local.lapsed(n, now))
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        let needs = Needs::changes(n);
        self.waited(needs, move |local, now| local.prune(n, now))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        self.lazy(Needs::Reserve(0), move |local, now| Ok(local.lead(duty, node, span, now)))
    }
}

impl Views for Embedded {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        self.lazy(Needs::Room(0), move |local, now| local.note(&notes, now))
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        self.look(move |local, _| Ok(local.notes(id)))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.look(move |local, now| local.list(&query, now))
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        self.look(move |local, _| Ok(local.counts(queue.as_ref())))
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        self.look(move |local, now| Ok(local.stats(&series, step, now)))
    }
}

impl Registry for Embedded {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        let needs = Needs::Reserve(0);
        self.durable(needs, move |local, now| Ok(local.define(&definitions, now)))
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.look(move |local, now| Ok(local.entries(table, after.as_ref(), n, now)))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.look(move |local, _| Ok(local.group(id)))
    }
}

impl Store for Embedded {
    fn wakes(&self, hook: WakeHook) {
        self.inner.hooks.add(hook);
    }

    fn is_near(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        match self.inner.options.durability {
            When::Always => Durability::Power,
            When::Interval | When::None => Durability::Process,
        }
    }

    fn ailment(&self) -> Option<Ailment> {
        let health = self.health();
        match health.is_poisoned {
            true => Some(Ailment::Poisoned),
            false => health.full.map(Ailment::Full),
        }
    }

    fn gave_up(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(self.inner.durable.poisoned())
    }

    fn vitals(&self) -> Option<Vitals> {
        let is_stuck = self.health().stuck.is_some();
        // A poisoned store has its files still, but nobody knows what is in them.
        let on_disk = self.inner.lock().map(|state| state.local.records().bytes_on_disk());
        let bytes_on_disk = on_disk.unwrap_or_default();
        Some(Vitals { bytes_on_disk, is_stuck, ..self.inner.pulse.vitals() })
    }
}
