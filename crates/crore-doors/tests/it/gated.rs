//! A store that writes definitions only when the test lets it.

use std::sync::Arc;

use crore::core::group::Group;
use crore::core::{Batch, GroupId, Job, JobId, Name, Span, Time};
use crore::store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crore::store::registry::{Define, Defined, Entry, Table};
use crore::store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore::store::views::{Count, JobNotes, Note, Page, Query, Step};
use crore::store::{
    Answer, Committed, Jobs, Memory, Registry, Store, SystemClock, Upkeep, Views, WakeHook,
};
use crore::{Engine, Options};
use tokio::sync::Semaphore;

/// A memory store behind a gate.
#[derive(Debug)]
pub(crate) struct Gated {
    well: Memory,
    /// So many calls are let through.
    pub(crate) lets: Semaphore,
}

impl Gated {
    /// An engine on such a store, whose gate is closed.
    pub(crate) fn engine() -> (Engine, Arc<Self>) {
        let (clock, lets) = (Arc::new(SystemClock), Semaphore::new(0));
        let gated = Arc::new(Self { well: Memory::new(clock.clone()), lets });
        let engine = Engine::on(gated.clone(), clock, Options::default());
        (engine.expect("an engine"), gated)
    }
}

impl Registry for Gated {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        Box::pin(async {
            self.lets.acquire().await.expect("never closed for good").forget();
            self.well.define(definitions).await
        })
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.well.entries(table, after, n)
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.well.group(id)
    }
}

impl Jobs for Gated {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        self.well.push(batch)
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        self.well.claim(ask)
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        self.well.renew(leases)
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.well.apply(writes)
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.well.get(which)
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        self.well.holders(keys)
    }
}

impl Upkeep for Gated {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        self.well.promote(n)
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        self.well.lapsed(n)
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        self.well.prune(n)
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        self.well.lead(duty, node, span)
    }
}

impl Views for Gated {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        self.well.note(notes)
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        self.well.notes(id)
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.well.list(query)
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        self.well.counts(queue)
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        self.well.stats(series, step)
    }
}

impl Store for Gated {
    fn wakes(&self, hook: WakeHook) {
        self.well.wakes(hook);
    }
}
