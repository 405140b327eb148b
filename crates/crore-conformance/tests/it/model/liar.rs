//! A memory store that falsifies some answers, or that numbers things in another way.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::Retain;
use crore_core::machine::{Event, Outcome, decide};
use crore_core::{Batch, GroupId, Job, JobId, Name, NewJob, Payload, Span, Spec, Time};
use crore_store::jobs::{
    Applied, Claim, Claimed, Order, Pushed, Pushes, Renew, Renewed, Which, Write,
};
use crore_store::registry::{Define, Defined, Entry, Table};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{Count, JobNotes, Note, Page, Query, Step};
use crore_store::{Answer, Committed, Error};
use crore_store::{Jobs, Memory, Registry, Store, Upkeep, Views, WakeHook};

/// What is done to the answers of a memory store. By itself a lie changes nothing.
pub(super) trait Lie: Send + Sync + Debug + 'static {
    /// Called before each verb.
    fn before(&self) {}

    /// Called after each verb.
    fn after(&self) {}

    /// What a claim is said to have given.
    fn claimed(&self, _: &mut Claimed) {}

    /// What is said to have become of a write.
    fn applied(&self, _: &mut Applied) {}

    /// What is said of a lease.
    fn renewed(&self, _: &mut Renewed) {}

    /// What is said to be counted.
    fn counts(&self, _: &mut Vec<Count>) {}

    /// Whether numbers are used up by things that nobody asked for.
    fn leaves_gaps(&self) -> bool {
        false
    }
}

/// The store.
#[derive(Debug)]
pub(super) struct Liar<L> {
    pub(super) memory: Memory,
    pub(super) lie: L,
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

impl<L: Lie> Liar<L> {
    /// Uses up the number of a job and the number of a delivery, and leaves nothing behind.
    async fn skip(&self) -> Result<(), Error> {
        if !self.lie.leaves_gaps() {
            return Ok(());
        }
        let mut spec = Spec::new(name("gap"), name("gap"), Payload::json("0"));
        spec.retain = Retain::Nothing;
        let pushes = self.memory.push(NewJob::from(spec).into()).await?.into_inner();
        assert!(matches!(pushes.jobs.as_slice(), [Pushed::New(_)]));
        let queues = vec![name("gap")];
        let ask = Claim { queues, kinds: None, n: 1, order: Order::Merged, worker: name("gap") };
        for job in self.memory.claim(ask).await?.jobs {
            let report = Outcome::Done { result: None }.into();
            let event = Event::Finished { delivery: Some(job.live.delivery), report };
            let change = decide(&job, &event, 0).expect("the report counts");
            let _ = self.memory.apply(vec![Write::Job(change)]).await?;
        }
        Ok(())
    }

    /// Does a verb of the memory store. It does its work when it is called, not when it is awaited.
    fn told<'a, T: Send + 'a>(
        &'a self,
        verb: impl FnOnce(&'a Memory) -> Answer<'a, T>,
        lie: impl FnOnce(&L, &mut T) + Send + 'a,
    ) -> Answer<'a, T> {
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

impl<L: Lie> Jobs for Liar<L> {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        Box::pin(async {
            self.skip().await?;
            self.told(|memory| memory.push(batch), |_, _| ()).await
        })
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        Box::pin(async {
            self.skip().await?;
            self.told(|memory| memory.claim(ask), L::claimed).await
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        let lie = |lie: &L, all: &mut Vec<_>| all.iter_mut().for_each(|one| lie.renewed(one));
        self.told(|memory| memory.renew(leases), lie)
    }

    #[expect(clippy::disallowed_methods, reason = "a lie is told as if it were durable")]
    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.told(
            |memory| memory.apply(writes),
            |lie, committed| {
                let mut all = committed.get().clone();
                all.iter_mut().for_each(|one| lie.applied(one));
                *committed = Committed::synced(all);
            },
        )
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.told(|memory| memory.get(which), |_, _| ())
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        self.told(|memory| memory.holders(keys), |_, _| ())
    }
}

impl<L: Lie> Upkeep for Liar<L> {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        self.told(|memory| memory.promote(n), |_, _| ())
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        self.told(|memory| memory.lapsed(n), |_, _| ())
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        self.told(|memory| memory.prune(n), |_, _| ())
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        self.told(|memory| memory.lead(duty, node, span), |_, _| ())
    }
}

impl<L: Lie> Views for Liar<L> {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        self.told(|memory| memory.note(notes), |_, _| ())
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        self.told(|memory| memory.notes(id), |_, _| ())
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.told(|memory| memory.list(query), |_, _| ())
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        self.told(|memory| memory.counts(queue), L::counts)
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        self.told(|memory| memory.stats(series, step), |_, _| ())
    }
}

impl<L: Lie> Registry for Liar<L> {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        self.told(|memory| memory.define(definitions), |_, _| ())
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.told(|memory| memory.entries(table, after, n), |_, _| ())
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.told(|memory| memory.group(id), |_, _| ())
    }
}

impl<L: Lie> Store for Liar<L> {
    fn wakes(&self, hook: WakeHook) {
        self.memory.wakes(hook);
    }
}
