//! A store that errs once, answers slowly, or has given up, as the test says.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crore::core::group::Group;
use crore::core::{Batch, GroupId, Job, JobId, Name, Span, Time};
use crore::store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crore::store::registry::{Define, Defined, Entry, Table};
use crore::store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore::store::views::{Count, JobNotes, Note, Page, Query, Step};
use crore::store::{
    Answer, Committed, Error, Jobs, Memory, Registry, Store, Upkeep, Views, WakeHook,
};
use crore_testkit::FakeClock;

use crate::scene::Scene;

/// One verb of the seam.
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
}

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A memory store, and what is wrong with it.
pub(crate) struct Sick {
    well: Memory,
    ills: Mutex<Ills>,
}

#[derive(Default)]
struct Ills {
    is_poisoned: bool,
    errs: HashMap<Verb, usize>,
    full: HashSet<Verb>,
    held: HashMap<Verb, Vec<Waker>>,
    mute: HashSet<Verb>,
    forgets: HashSet<Verb>,
    meanwhile: HashMap<Verb, Meanwhile>,
}

impl fmt::Debug for Sick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sick").finish_non_exhaustive()
    }
}

impl Sick {
    pub(crate) fn scene() -> (Scene, Arc<Self>) {
        let clock = FakeClock::default();
        let sick = Self::new(Memory::new(Arc::new(clock.clone())));
        (Scene::over(Arc::clone(&sick) as Arc<dyn Store>, clock, None), sick)
    }

    pub(crate) fn new(well: Memory) -> Arc<Self> {
        Arc::new(Self { well, ills: Mutex::default() })
    }

    fn ills(&self) -> MutexGuard<'_, Ills> {
        self.ills.lock().expect("no panic")
    }

    /// The next call of a verb fails, and has no effect.
    pub(crate) fn err_once(&self, verb: Verb) {
        *self.ills().errs.entry(verb).or_default() += 1;
    }

    /// The next call of a verb finds no room, and has no effect.
    pub(crate) fn full_once(&self, verb: Verb) {
        self.ills().full.insert(verb);
    }

    /// How many calls of a verb are still to fail.
    pub(crate) fn errs_left(&self, verb: Verb) -> usize {
        self.ills().errs.get(&verb).copied().unwrap_or_default()
    }

    /// Calls of a verb are not answered until they are released.
    pub(crate) fn hold(&self, verb: Verb) {
        self.ills().held.entry(verb).or_default();
    }

    /// The next call of a verb takes effect, and is never answered.
    pub(crate) fn mute_once(&self, verb: Verb) {
        self.ills().mute.insert(verb);
    }

    /// The next call of a verb takes effect, and is answered by an error.
    pub(crate) fn forget_once(&self, verb: Verb) {
        self.ills().forgets.insert(verb);
    }

    pub(crate) fn release(&self, verb: Verb) {
        let held = self.ills().held.remove(&verb).unwrap_or_default();
        held.into_iter().for_each(Waker::wake);
    }

    /// Every call fails from now on.
    pub(crate) fn poison(&self) {
        self.ills().is_poisoned = true;
    }

    /// This happens right after the next call of a verb, before its caller hears the answer.
    pub(crate) fn meanwhile(&self, verb: Verb, does: impl FnOnce() + Send + 'static) {
        self.ills().meanwhile.insert(verb, Box::new(does));
    }

    fn through<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        ask: impl FnOnce() -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.may(verb).await?;
            let answer = ask().await;
            let meanwhile = self.ills().meanwhile.remove(&verb);
            if let Some(does) = meanwhile {
                does();
            }
            let (is_mute, forgets) = {
                let mut ills = self.ills();
                (ills.mute.remove(&verb), ills.forgets.remove(&verb))
            };
            if is_mute {
                std::future::pending::<()>().await;
            }
            if forgets { Err(Error::Unavailable("the answer is lost".into())) } else { answer }
        })
    }

    async fn may(&self, verb: Verb) -> Result<(), Error> {
        std::future::poll_fn(|context| match self.ills().held.get_mut(&verb) {
            Some(held) => {
                held.push(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
        let mut ills = self.ills();
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

impl Jobs for Sick {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        self.through(Verb::Push, || self.well.push(batch))
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        self.through(Verb::Claim, || self.well.claim(ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        self.through(Verb::Renew, || self.well.renew(leases))
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.through(Verb::Apply, || self.well.apply(writes))
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.through(Verb::Get, || self.well.get(which))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        self.through(Verb::Get, || self.well.holders(keys))
    }
}

impl Upkeep for Sick {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        self.through(Verb::Promote, move || self.well.promote(n))
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        self.through(Verb::Lapsed, move || self.well.lapsed(n))
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        self.through(Verb::Prune, move || self.well.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        self.through(Verb::Lead, move || self.well.lead(duty, node, span))
    }
}

impl Views for Sick {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        self.through(Verb::Note, || self.well.note(notes))
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        self.through(Verb::Notes, move || self.well.notes(id))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.through(Verb::List, || self.well.list(query))
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        self.through(Verb::Counts, || self.well.counts(queue))
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        self.through(Verb::Stats, move || self.well.stats(series, step))
    }
}

impl Registry for Sick {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        self.through(Verb::Define, || self.well.define(definitions))
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.through(Verb::Entries, move || self.well.entries(table, after, n))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.through(Verb::Group, move || self.well.group(id))
    }
}

impl Store for Sick {
    fn wakes(&self, hook: WakeHook) {
        self.well.wakes(hook);
    }
}
