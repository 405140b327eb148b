//! A faulty store: it fails once, responds slowly, or is poisoned, as the test configures it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crore::core::group::Group;
use crore::core::{Batch, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, Span, Time};
use crore::store::events::{Released, SendResult};
use crore::store::jobs::{
    Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore::store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore::store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore::store::views::{
    JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note, StatStep,
};
use crore::store::{
    Committed, Error, Events, Jobs, Memory, Registry, Store, StoreFuture, StoreId, Upkeep, Views,
    WakeHook,
};
use crore_testkit::FakeClock;

use crate::test_engine::TestEngine;

/// A method of the store traits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Push,
    Claim,
    Renew,
    Apply,
    Get,
    Promote,
    Lapsed,
    Prune,
    Lead,
    Note,
    Notes,
    List,
    Counts,
    Stats,
    Define,
    Entries,
    Group,
    Event,
}

type RaceHook = Box<dyn FnOnce() + Send>;

/// A memory store with injected faults.
pub(crate) struct FaultyStore {
    inner: Memory,
    faults: Mutex<InjectedFaults>,
}

#[derive(Default)]
struct InjectedFaults {
    is_poisoned: bool,
    errs: HashMap<Verb, usize>,
    full: HashSet<Verb>,
    held: HashMap<Verb, Vec<Waker>>,
    mute: HashSet<Verb>,
    forgets: HashSet<Verb>,
    meanwhile: HashMap<Verb, RaceHook>,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sick").finish_non_exhaustive()
    }
}

impl FaultyStore {
    pub(crate) fn test_engine() -> (TestEngine, Arc<Self>) {
        let clock = FakeClock::default();
        let sick = Self::new(Memory::new(Arc::new(clock.clone())));
        (TestEngine::on_store(Arc::clone(&sick) as Arc<dyn Store>, clock, None), sick)
    }

    pub(crate) fn new(well: Memory) -> Arc<Self> {
        Arc::new(Self { inner: well, faults: Mutex::default() })
    }

    fn faults(&self) -> MutexGuard<'_, InjectedFaults> {
        self.faults.lock().expect("no panic")
    }

    /// The next call fails without an effect.
    pub(crate) fn err_once(&self, verb: Verb) {
        *self.faults().errs.entry(verb).or_default() += 1;
    }

    /// The next call fails because the store is full, without an effect.
    pub(crate) fn full_once(&self, verb: Verb) {
        self.faults().full.insert(verb);
    }

    /// The number of calls that are still to fail.
    pub(crate) fn errs_left(&self, verb: Verb) -> usize {
        self.faults().errs.get(&verb).copied().unwrap_or_default()
    }

    /// Calls wait until they are released.
    pub(crate) fn hold(&self, verb: Verb) {
        self.faults().held.entry(verb).or_default();
    }

    /// The next call takes effect and is never answered.
    pub(crate) fn lose_answer_once(&self, verb: Verb) {
        self.faults().mute.insert(verb);
    }

    /// The next call takes effect and returns an error.
    pub(crate) fn answer_with_error_once(&self, verb: Verb) {
        self.faults().forgets.insert(verb);
    }

    pub(crate) fn release(&self, verb: Verb) {
        let held = self.faults().held.remove(&verb).unwrap_or_default();
        held.into_iter().for_each(Waker::wake);
    }

    /// Every call fails from now on.
    pub(crate) fn poison(&self) {
        self.faults().is_poisoned = true;
    }

    /// Runs a closure right after the next call takes effect, before its caller gets the answer.
    pub(crate) fn after_next_call(&self, verb: Verb, does: impl FnOnce() + Send + 'static) {
        self.faults().meanwhile.insert(verb, Box::new(does));
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        ask: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.check_faults(verb).await?;
            let answer = ask().await;
            let meanwhile = self.faults().meanwhile.remove(&verb);
            if let Some(does) = meanwhile {
                does();
            }
            let (is_mute, forgets) = {
                let mut ills = self.faults();
                (ills.mute.remove(&verb), ills.forgets.remove(&verb))
            };
            if is_mute {
                std::future::pending::<()>().await;
            }
            if forgets { Err(Error::Unavailable("the answer is lost".into())) } else { answer }
        })
    }

    async fn check_faults(&self, verb: Verb) -> Result<(), Error> {
        std::future::poll_fn(|context| match self.faults().held.get_mut(&verb) {
            Some(held) => {
                held.push(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
        let mut ills = self.faults();
        if ills.is_poisoned {
            return Err(Error::Poisoned);
        }
        if ills.full.remove(&verb) {
            return Err(Error::Full { what: "no room".to_owned() });
        }
        match ills.errs.get_mut(&verb) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err(Error::Unavailable("once".into()))
            }
            _ => Ok(()),
        }
    }
}

impl Jobs for FaultyStore {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        self.call(Verb::Push, || self.inner.push(batch))
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        self.call(Verb::Claim, || self.inner.claim(ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        self.call(Verb::Renew, || self.inner.renew(leases))
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.call(Verb::Apply, || self.inner.apply(writes))
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.call(Verb::Get, || self.inner.get(which))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.call(Verb::Get, || self.inner.holders(keys))
    }
}

impl Events for FaultyStore {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        self.call(Verb::Event, move || self.inner.send(event, caps))
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        self.call(Verb::Event, move || self.inner.release(n))
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.call(Verb::Event, move || self.inner.event(name))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.call(Verb::Event, move || self.inner.events(after, n))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        self.call(Verb::Event, move || self.inner.remove_event(name))
    }
}

impl Upkeep for FaultyStore {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        self.call(Verb::Promote, move || self.inner.promote(n))
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.call(Verb::Lapsed, move || self.inner.lapsed(n))
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        self.call(Verb::Prune, move || self.inner.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        self.call(Verb::Lead, move || self.inner.lead(duty, node, span))
    }
}

impl Views for FaultyStore {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        self.call(Verb::Note, || self.inner.note(notes))
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.call(Verb::Notes, move || self.inner.notes(id))
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.call(Verb::List, || self.inner.list(query))
    }

    fn has_index(&self) -> bool {
        self.inner.has_index()
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.call(Verb::Counts, || self.inner.counts(queue))
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.call(Verb::Stats, move || self.inner.stats(series, step))
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        self.call(Verb::Stats, move || self.inner.job_stats(query))
    }
}

impl Registry for FaultyStore {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        self.call(Verb::Define, || self.inner.define(definitions))
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.call(Verb::Entries, move || self.inner.entries(table, after, n))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.call(Verb::Group, move || self.inner.group(id))
    }
}

impl Store for FaultyStore {
    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }

    fn add_wake_hook(&self, hook: WakeHook) {
        self.inner.add_wake_hook(hook);
    }
}
