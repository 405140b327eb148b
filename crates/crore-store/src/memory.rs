//! The memory store: the model that every other store is compared with.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crore_core::group::Group;
use crore_core::{Batch, Clock, GroupId, Job, JobId, Name, Span, Time};

use crate::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crate::local::{Local, Map};
use crate::registry::{Define, Defined, Entry, QueueSettings, Table};
use crate::upkeep::{Lapses, Lead, Promoted, Pruned};
use crate::views::{Count, JobNotes, Note, Page, Query, Step};
use crate::{
    Answer, Committed, Error, Jobs, Registry, Store, SystemClock, Upkeep, Views, WakeHook,
};

/// A store that forgets everything when it is dropped (durability class D0).
///
/// Every verb is done when it returns its answer, under one lock that is never held while waiting
/// for anything.
pub struct Memory {
    clock: Arc<dyn Clock>,
    local: Mutex<(Local<Map>, Time)>,
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
    /// An empty store that goes by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, local: Mutex::default(), hooks: RwLock::default() }
    }

    /// The same store, with other settings for queues that have none of their own.
    #[must_use]
    pub fn with_queues(self, settings: QueueSettings) -> Self {
        let mut local = self.local.into_inner().unwrap_or_else(PoisonError::into_inner);
        local.0.set_defaults(settings);
        Self { local: Mutex::new(local), ..self }
    }

    /// Does a verb, and tells of jobs that became ready by it.
    ///
    /// A panic inside a verb leaves the index in doubt, so from then on every verb is refused.
    fn verb<T>(
        &self,
        verb: impl FnOnce(&mut Local<Map>, Time) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (answer, woken) = {
            let mut guard = self.local.lock().map_err(|_| Error::Poisoned)?;
            let (local, last) = &mut *guard;
            // The store's time never runs backwards, so that later pushes never sort before earlier.
            *last = (*last).max(self.clock.now());
            let answer = verb(local, *last);
            local.touched();
            (answer, local.woken())
        };
        self.wake(&woken);
        answer
    }

    fn wake(&self, woken: &[Name]) {
        if woken.is_empty() {
            return;
        }
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().for_each(|hook| hook(woken));
    }

    /// What this store has of durability it has as soon as a verb is done.
    #[expect(clippy::disallowed_methods, reason = "memory is all this store promises")]
    fn committed<T>(
        &self,
        verb: impl FnOnce(&mut Local<Map>, Time) -> Result<T, Error>,
    ) -> Result<Committed<T>, Error> {
        self.verb(verb).map(Committed::synced)
    }
}

fn answer<'a, T: Send + 'a>(result: Result<T, Error>) -> Answer<'a, T> {
    Box::pin(ready(result))
}

impl Jobs for Memory {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        answer(self.committed(|local, now| local.push(batch, now)))
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        answer(self.verb(|local, now| local.claim(&ask, now)))
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        answer(self.verb(|local, now| local.renew(&leases, now)))
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        answer(self.committed(|local, now| local.apply(writes, now)))
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        answer(self.verb(|local, now| local.get(&which, now)))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        answer(self.verb(|local, now| Ok(local.holders(&keys, now))))
    }
}

impl Upkeep for Memory {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        answer(self.verb(|local, now| local.promote(n, now)))
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        answer(self.verb(|local, now| local.lapsed(n, now)))
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        answer(self.verb(|local, now| local.prune(n, now)))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        answer(self.verb(|local, now| Ok(local.lead(duty, node, span, now))))
    }
}

impl Views for Memory {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        answer(self.verb(|local, now| local.note(&notes, now)))
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        answer(self.verb(|local, _| Ok(local.notes(id))))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        answer(self.verb(|local, now| local.list(&query, now)))
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        answer(self.verb(|local, _| Ok(local.counts(queue.as_ref()))))
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        answer(self.verb(|local, now| Ok(local.stats(&series, step, now))))
    }
}

impl Registry for Memory {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        answer(self.committed(|local, now| Ok(local.define(&definitions, now))))
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        answer(self.verb(|local, now| Ok(local.entries(table, after.as_ref(), n, now))))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        answer(self.verb(|local, _| Ok(local.group(id))))
    }
}

impl Store for Memory {
    fn wakes(&self, hook: WakeHook) {
        self.hooks.write().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    fn is_near(&self) -> bool {
        true
    }
}
