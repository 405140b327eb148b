//! The five store traits. Nothing survives the process, so a write is committed as soon as it is in memory.
#![expect(clippy::disallowed_methods, reason = "this store has nothing to sync")]

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::DEFAULT_LEASE;
use crore_core::{
    Batch, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, Span, State, Time,
};
use crore_store::events::{Released, SendResult};
use crore_store::jobs::{
    Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{
    JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note, PausedKey,
    RequiredVersion, StatStep,
};
use crore_store::{Committed, Events, Jobs, Registry, StoreFuture, Upkeep, Views};

use super::PlainStore;
use super::records::Records;

impl Jobs for PlainStore {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        self.answer(|records| Committed::synced(records.push(batch)))
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        self.answer(|records| records.claim(&ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        self.answer(|records| leases.iter().map(|lease| records.renew(lease)).collect())
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.answer(|records| {
            Committed::synced(writes.into_iter().map(|write| records.apply(write)).collect())
        })
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.answer(|records| which.iter().map(|which| records.find(which)).collect())
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.answer(|records| keys.iter().map(|key| records.holder(key)).collect())
    }
}

impl Records {
    fn renew(&mut self, lease: &Renew) -> Renewed {
        let now = self.now;
        let job = self
            .jobs
            .get_mut(&lease.id)
            .filter(|job| job.live.state == State::Running && job.live.delivery == lease.delivery);
        let Some(job) = job else { return Renewed::Stale };
        let span = lease.span.or(job.spec.lease).unwrap_or(DEFAULT_LEASE);
        job.live.lease_until = job.live.lease_until.max(now.after(span));
        Renewed::Until { until: job.live.lease_until, stop: job.live.stop }
    }

    fn find(&self, which: &JobSelector) -> Option<Job> {
        let job = match which {
            JobSelector::Id(id) => self.jobs.get(id),
            JobSelector::Client(id) => {
                self.jobs.values().find(|job| job.spec.client_id.as_deref() == Some(id))
            }
        };
        job.map(|job| self.with_event(job.clone()))
    }
}

impl Events for PlainStore {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        self.answer(|records| Committed::synced(records.send(event, caps)))
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        self.answer(|records| records.release(n))
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.answer(|records| records.kept(&name))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.answer(|records| records.kept_events(after.as_ref(), n))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        self.answer(|records| Committed::synced(records.remove_event(&name)))
    }
}

impl Upkeep for PlainStore {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        self.answer(|records| records.promote(n))
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.answer(|records| records.lapsed(n))
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        self.answer(|records| records.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        self.answer(|records| records.lead(duty, node, span))
    }
}

impl Views for PlainStore {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        self.answer(|records| {
            let kept = notes.into_iter().map(|note| records.note(note));
            kept.filter(|kept| *kept).count()
        })
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.answer(|records| records.notes.get(&id).cloned().unwrap_or_default())
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.answer(|records| records.list(&query))
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.answer(|records| records.counts(queue.as_ref()))
    }

    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        self.answer(|records| records.required_versions(queue.as_ref()))
    }

    fn has_index(&self) -> bool {
        true
    }

    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        self.answer(move |records| records.paused_keys(limit.as_ref(), n))
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.answer(|records| records.stats(&series, step))
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        self.answer(|records| records.job_stats(&query))
    }
}

impl Registry for PlainStore {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        self.answer(|records| Committed::synced(records.define(definitions)))
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.answer(|records| records.list_entries(table, after.as_ref(), n))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.answer(|records| records.groups.get(&id).map(|(group, _)| *group))
    }
}
