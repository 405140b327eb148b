//! The four traits, word for word. Nothing here survives the process, so what is in memory is as
//! durable as it gets, and an answer is committed when it is made.
#![expect(clippy::disallowed_methods, reason = "this is a store, and its sync is to do nothing")]

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::DEFAULT_LEASE;
use crore_core::{Batch, GroupId, Job, JobId, Name, Span, State, Time};
use crore_store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crore_store::registry::{Define, Defined, Entry, Table};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{Count, JobNotes, Note, Page, Query, Step};
use crore_store::{Answer, Committed, Jobs, Registry, Upkeep, Views};

use super::Plain;
use super::records::Records;

impl Jobs for Plain {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        self.answer(|records| Committed::synced(records.push(batch)))
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        self.answer(|records| records.claim(&ask))
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        self.answer(|records| leases.iter().map(|lease| records.renew(lease)).collect())
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.answer(|records| {
            Committed::synced(writes.into_iter().map(|write| records.apply(write)).collect())
        })
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.answer(|records| which.iter().map(|which| records.find(which)).collect())
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
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

    fn find(&self, which: &Which) -> Option<Job> {
        let job = match which {
            Which::Id(id) => self.jobs.get(id),
            Which::Client(id) => {
                self.jobs.values().find(|job| job.spec.client_id.as_ref() == Some(id))
            }
        };
        job.cloned()
    }
}

impl Upkeep for Plain {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        self.answer(|records| records.promote(n))
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        self.answer(|records| records.lapsed(n))
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        self.answer(|records| records.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        self.answer(|records| records.lead(duty, node, span))
    }
}

impl Views for Plain {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        self.answer(|records| {
            let kept = notes.into_iter().map(|note| records.note(note));
            kept.filter(|kept| *kept).count()
        })
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        self.answer(|records| records.notes.get(&id).cloned().unwrap_or_default())
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.answer(|records| records.list(&query))
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        self.answer(|records| records.counts(queue.as_ref()))
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        self.answer(|records| records.stats(&series, step))
    }
}

impl Registry for Plain {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        self.answer(|records| {
            Committed::synced(definitions.into_iter().map(|one| records.define(one)).collect())
        })
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.answer(|records| records.list_entries(table, after.as_ref(), n))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.answer(|records| records.groups.get(&id).map(|(group, _)| *group))
    }
}
