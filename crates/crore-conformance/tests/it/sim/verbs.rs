//! The methods of the journal store: applied to the memory store, and acknowledged when durable.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::{Batch, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, Span, Time};
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
    Committed, Events, Jobs, Registry, Store, StoreFuture, StoreId, Upkeep, Views, WakeHook,
};

use super::journal::{OpenJournal, Verb, poll_once};

impl Jobs for OpenJournal {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        Box::pin(async {
            let (place, pushes) = self.call(Verb::Push(batch.clone()), |m| m.push(batch))?;
            pushes.get().jobs.iter().filter_map(|job| job.id()).for_each(|id| self.note_id(id.0));
            self.durable(place).await?;
            Ok(pushes)
        })
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        Box::pin(async {
            let (place, mut claimed) = self.call(Verb::Claim(ask.clone()), |m| m.claim(ask))?;
            claimed.jobs = claimed.jobs.into_iter().map(|job| self.shown(job)).collect();
            self.claimed(&claimed, place).await?;
            Ok(claimed)
        })
    }

    fn renew(&self, mut leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        Box::pin(async {
            leases.iter_mut().for_each(|lease| lease.delivery = self.inward(lease.delivery));
            Ok(self.call(Verb::Renew(leases.clone()), |m| m.renew(leases))?.1)
        })
    }

    fn apply(&self, mut writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        Box::pin(async {
            for write in &mut writes {
                if let StoreWrite::Job(change) = write {
                    change.seen.delivery = self.inward(change.seen.delivery);
                }
            }
            let (place, applied) = self.call(Verb::Apply(writes.clone()), |m| m.apply(writes))?;
            for pushed in applied.get().iter().filter_map(|applied| match applied {
                Applied::Yes(pushed) => Some(pushed),
                Applied::Stale => None,
            }) {
                pushed.iter().filter_map(|job| job.id()).for_each(|id| self.note_id(id.0));
            }
            self.durable(place).await?;
            Ok(applied)
        })
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.set_time();
        let jobs = poll_once(self.memory.get(which));
        let shown = |job: Option<Job>| job.map(|job| self.shown(job));
        Box::pin(std::future::ready(jobs.map(|jobs| jobs.into_iter().map(shown).collect())))
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.set_time();
        Box::pin(std::future::ready(poll_once(self.memory.holders(keys))))
    }
}

impl Events for OpenJournal {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        Box::pin(async move {
            let verb = Verb::Send(event.clone(), caps);
            let (place, sent) = self.call(verb, |m| m.send(event, caps))?;
            self.durable(place).await?;
            Ok(sent)
        })
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        Box::pin(async move { Ok(self.call(Verb::Release(n), |m| m.release(n))?.1) })
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.set_time();
        Box::pin(std::future::ready(poll_once(self.memory.event(name))))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.set_time();
        Box::pin(std::future::ready(poll_once(self.memory.events(after, n))))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        Box::pin(async move {
            let verb = Verb::RemoveEvent(name.clone());
            let (place, removed) = self.call(verb, |m| m.remove_event(name))?;
            self.durable(place).await?;
            Ok(removed)
        })
    }
}

impl Upkeep for OpenJournal {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        Box::pin(async move { Ok(self.call(Verb::Promote(n), |m| m.promote(n))?.1) })
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.set_time();
        let lapses = poll_once(self.memory.lapsed(n)).map(|mut lapses| {
            lapses.lapsed = lapses.lapsed.into_iter().map(|job| self.shown(job)).collect();
            lapses.broken = lapses.broken.into_iter().map(|job| self.shown(job)).collect();
            lapses
        });
        Box::pin(std::future::ready(lapses))
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        Box::pin(async move { Ok(self.call(Verb::Prune(n), |m| m.prune(n))?.1) })
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        Box::pin(async move {
            let verb = Verb::Lead(duty.clone(), node, span);
            Ok(self.call(verb, |m| m.lead(duty, node, span))?.1)
        })
    }
}

impl Views for OpenJournal {
    fn note(&self, mut notes: Vec<Note>) -> StoreFuture<'_, usize> {
        Box::pin(async {
            for note in &mut notes {
                match note {
                    Note::Progress { delivery, .. } | Note::Line { delivery, .. } => {
                        *delivery = self.inward(*delivery);
                    }
                    Note::Stat { .. } | Note::Jobs { .. } => {}
                }
            }
            Ok(self.call(Verb::Note(notes.clone()), |m| m.note(notes))?.1)
        })
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.memory.notes(id)
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.set_time();
        let page = poll_once(self.memory.list(query)).map(|mut page| {
            page.jobs = page.jobs.into_iter().map(|job| self.shown(job)).collect();
            page
        });
        Box::pin(std::future::ready(page))
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.memory.counts(queue)
    }

    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        self.memory.required_versions(queue)
    }

    fn has_index(&self) -> bool {
        true
    }

    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        self.memory.paused_keys(limit, n)
    }

    fn held_back(&self, queue: Option<Name>, n: usize) -> StoreFuture<'_, Vec<HeldBack>> {
        self.memory.held_back(queue, n)
    }

    fn oldest_ready(&self, queues: Vec<Name>) -> StoreFuture<'_, Vec<Option<Time>>> {
        self.memory.oldest_ready(queues)
    }

    fn largest_shares(&self, queue: Name, n: usize) -> StoreFuture<'_, Vec<ShareCount>> {
        self.memory.largest_shares(queue, n)
    }

    fn groups(&self, before: Option<GroupId>, n: usize) -> StoreFuture<'_, Vec<GroupRow>> {
        self.memory.groups(before, n)
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.memory.stats(series, step)
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        self.memory.job_stats(query)
    }
}

impl Registry for OpenJournal {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        Box::pin(async {
            let verb = Verb::Define(definitions.clone());
            let (place, defined) = self.call(verb, |m| m.define(definitions))?;
            self.durable(place).await?;
            Ok(defined)
        })
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.set_time();
        self.memory.entries(table, after, n)
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.memory.group(id)
    }
}

impl Store for OpenJournal {
    fn store_id(&self) -> StoreId {
        // Every opening replays into a new memory store, whose identity changes.
        StoreId(1)
    }

    fn add_wake_hook(&self, hook: WakeHook) {
        self.memory.add_wake_hook(hook);
    }
}
