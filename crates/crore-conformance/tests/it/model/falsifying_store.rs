//! A memory store that falsifies some responses, or allocates ids differently.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::JobRetention;
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::KindVersions;
use crore_core::{
    Batch, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, NewJob, Payload, Span, Spec,
    Time,
};
use crore_store::events::{Released, SendResult};
use crore_store::jobs::{
    Applied, Claim, Claimed, JobSelector, Pushed, PushedBatch, QueueOrder, Renew, Renewed,
    StoreWrite,
};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{
    GroupRow, HeldBack, JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note,
    PausedKey, RequiredVersion, ShareCount, StatStep,
};
use crore_store::{Committed, Error, StoreFuture, StoreId};
use crore_store::{Events, Jobs, Memory, Registry, Store, Upkeep, Views, WakeHook};

/// How the responses of a memory store are falsified. The default methods change nothing.
pub(super) trait Falsification: Send + Sync + Debug + 'static {
    /// Called before each method.
    fn before(&self) {}

    /// Called after each method.
    fn after(&self) {}

    /// Changes the result of a claim.
    fn claimed(&self, _: &mut Claimed) {}

    /// Changes the result of a write.
    fn applied(&self, _: &mut Applied) {}

    /// Changes the result of a renewal.
    fn renewed(&self, _: &mut Renewed) {}

    /// Changes the counts.
    fn counts(&self, _: &mut Vec<JobCount>) {}

    /// Whether extra ids are consumed, so that ids have gaps.
    fn leaves_gaps(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(super) struct FalsifyingStore<L> {
    pub(super) memory: Memory,
    pub(super) lie: L,
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

impl<L: Falsification> FalsifyingStore<L> {
    /// Consumes one job id and one delivery number, and leaves nothing behind.
    async fn consume_ids(&self) -> Result<(), Error> {
        if !self.lie.leaves_gaps() {
            return Ok(());
        }
        let mut spec = Spec::new(name("gap"), name("gap"), Payload::json("0"));
        spec.retain = JobRetention::Nothing;
        let pushes = self.memory.push(NewJob::from(spec).into()).await?.into_inner();
        assert!(matches!(pushes.jobs.as_slice(), [Pushed::New(_)]));
        let queues = vec![name("gap")];
        let ask = Claim {
            queues,
            kinds: None,
            versions: KindVersions::default(),
            n: 1,
            order: QueueOrder::Merged,
            worker: name("gap"),
        };
        for job in self.memory.claim(ask).await?.jobs {
            let report = Outcome::Done { result: None }.into();
            let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
            let change = decide(&job, &event, 0).expect("the report counts");
            let _ = self.memory.apply(vec![StoreWrite::Job(change)]).await?;
        }
        Ok(())
    }

    /// Calls a method of the memory store, which does its work when called, not when awaited.
    fn falsified<'a, T: Send + 'a>(
        &'a self,
        verb: impl FnOnce(&'a Memory) -> StoreFuture<'a, T>,
        lie: impl FnOnce(&L, &mut T) + Send + 'a,
    ) -> StoreFuture<'a, T> {
        self.lie.before();
        let answer = verb(&self.memory);
        self.lie.after();
        Box::pin(async move {
            let mut answer = answer.await?;
            lie(&self.lie, &mut answer);
            Ok(answer)
        })
    }
}

impl<L: Falsification> Jobs for FalsifyingStore<L> {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        Box::pin(async {
            self.consume_ids().await?;
            self.falsified(|memory| memory.push(batch), |_, _| ()).await
        })
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        Box::pin(async {
            self.consume_ids().await?;
            self.falsified(|memory| memory.claim(ask), L::claimed).await
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        let lie = |lie: &L, all: &mut Vec<_>| all.iter_mut().for_each(|one| lie.renewed(one));
        self.falsified(|memory| memory.renew(leases), lie)
    }

    #[expect(clippy::disallowed_methods, reason = "a lie is told as if it were durable")]
    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.falsified(
            |memory| memory.apply(writes),
            |lie, committed| {
                let mut all = committed.get().clone();
                all.iter_mut().for_each(|one| lie.applied(one));
                *committed = Committed::synced(all);
            },
        )
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.falsified(|memory| memory.get(which), |_, _| ())
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.falsified(|memory| memory.holders(keys), |_, _| ())
    }
}

impl<L: Falsification> Events for FalsifyingStore<L> {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        self.falsified(|memory| memory.send(event, caps), |_, _| ())
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        self.falsified(|memory| memory.release(n), |_, _| ())
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.falsified(|memory| memory.event(name), |_, _| ())
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.falsified(|memory| memory.events(after, n), |_, _| ())
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        self.falsified(|memory| memory.remove_event(name), |_, _| ())
    }
}

impl<L: Falsification> Upkeep for FalsifyingStore<L> {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        self.falsified(|memory| memory.promote(n), |_, _| ())
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.falsified(|memory| memory.lapsed(n), |_, _| ())
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        self.falsified(|memory| memory.prune(n), |_, _| ())
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        self.falsified(|memory| memory.lead(duty, node, span), |_, _| ())
    }
}

impl<L: Falsification> Views for FalsifyingStore<L> {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        self.falsified(|memory| memory.note(notes), |_, _| ())
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.falsified(|memory| memory.notes(id), |_, _| ())
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.falsified(|memory| memory.list(query), |_, _| ())
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.falsified(|memory| memory.counts(queue), L::counts)
    }

    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        self.falsified(|memory| memory.required_versions(queue), |_, _| ())
    }

    fn has_index(&self) -> bool {
        true
    }

    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        self.falsified(|memory| memory.paused_keys(limit, n), |_, _| ())
    }

    fn held_back(&self, queue: Option<Name>, n: usize) -> StoreFuture<'_, Vec<HeldBack>> {
        self.falsified(|memory| memory.held_back(queue, n), |_, _| ())
    }

    fn oldest_ready(&self, queues: Vec<Name>) -> StoreFuture<'_, Vec<Option<Time>>> {
        self.falsified(|memory| memory.oldest_ready(queues), |_, _| ())
    }

    fn largest_shares(&self, queue: Name, n: usize) -> StoreFuture<'_, Vec<ShareCount>> {
        self.falsified(|memory| memory.largest_shares(queue, n), |_, _| ())
    }

    fn groups(&self, before: Option<GroupId>, n: usize) -> StoreFuture<'_, Vec<GroupRow>> {
        self.falsified(|memory| memory.groups(before, n), |_, _| ())
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.falsified(|memory| memory.stats(series, step), |_, _| ())
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        self.falsified(|memory| memory.job_stats(query), |_, _| ())
    }
}

impl<L: Falsification> Registry for FalsifyingStore<L> {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        self.falsified(|memory| memory.define(definitions), |_, _| ())
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.falsified(|memory| memory.entries(table, after, n), |_, _| ())
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.falsified(|memory| memory.group(id), |_, _| ())
    }
}

impl<L: Falsification> Store for FalsifyingStore<L> {
    fn store_id(&self) -> StoreId {
        self.memory.store_id()
    }

    fn add_wake_hook(&self, hook: WakeHook) {
        self.memory.add_wake_hook(hook);
    }
}
