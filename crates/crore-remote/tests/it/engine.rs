//! The engine on the stores of this crate, as far as they go: they have the path of a job and the
//! registry, and neither upkeep nor views yet.

use std::future::ready;
use std::sync::Arc;

use crore::act::{Act, Acted};
use crore::core::machine::{Again, Outcome};
use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::push::Taken;
use crore::{Engine, Options};
use crore_core::group::Group;
use crore_core::limit::Limit;
use crore_core::push::{After, AfterRef};
use crore_core::unique::{Hold, Unique};
use crore_core::{
    Batch, Clock, GroupId, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time,
};
use crore_store::jobs::{Applied, Claim, Claimed, Pushes, Renew, Renewed, Which, Write};
use crore_store::registry::{Define, Defined, Entry, Table};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{Count, JobNotes, Note, Page, Query, Step};
use crore_store::{Answer, Committed, Jobs, Registry, Store, Upkeep, Views, WakeHook};
use crore_testkit::FakeClock;

/// A store of which only the path of a job and the registry are there: nothing is ever due, lapsed or
/// listed.
#[derive(Debug)]
struct Half<S> {
    store: Arc<S>,
    clock: FakeClock,
}

fn nothing<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(ready(Ok(answer)))
}

impl<S: Jobs> Jobs for Half<S> {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        self.store.push(batch)
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        self.store.claim(ask)
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        self.store.renew(leases)
    }

    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.store.apply(writes)
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.store.get(which)
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        self.store.holders(keys)
    }
}

impl<S: Registry> Registry for Half<S> {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        self.store.define(definitions)
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.store.entries(table, after, n)
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.store.group(id)
    }
}

impl<S: Jobs> Upkeep for Half<S> {
    fn promote(&self, _: usize) -> Answer<'_, Promoted> {
        nothing(Promoted { now: self.clock.now(), count: 0, next_at: None })
    }

    fn lapsed(&self, _: usize) -> Answer<'_, Lapses> {
        let (lapsed, broken) = (Vec::new(), Vec::new());
        nothing(Lapses { now: self.clock.now(), lapsed, broken, next_at: None })
    }

    fn prune(&self, _: usize) -> Answer<'_, Pruned> {
        nothing(Pruned { jobs: 0, others: 0 })
    }

    fn lead(&self, _: Name, _: u64, span: Span) -> Answer<'_, Lead> {
        nothing(Lead::Yes(self.clock.now().after(span)))
    }
}

impl<S: Jobs> Views for Half<S> {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        nothing(notes.len())
    }

    fn notes(&self, _: JobId) -> Answer<'_, JobNotes> {
        nothing(JobNotes::default())
    }

    fn list(&self, _: Query) -> Answer<'_, Page> {
        nothing(Page { jobs: Vec::new(), next: None })
    }

    fn counts(&self, _: Option<Name>) -> Answer<'_, Vec<Count>> {
        nothing(Vec::new())
    }

    fn stats(&self, _: Name, _: Step) -> Answer<'_, Vec<(Time, u64)>> {
        nothing(Vec::new())
    }
}

impl<S: Jobs + Registry> Store for Half<S> {
    fn wakes(&self, _: WakeHook) {}
}

async fn over<S: Jobs + Registry + 'static>(store: Arc<S>, clock: FakeClock) -> Engine {
    let half = Half { store, clock: clock.clone() };
    let engine = Engine::without_thread(Arc::new(half), Arc::new(clock), Options::default()).await;
    engine.expect("an engine")
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

fn job() -> NewJob {
    Spec::new(name("q"), name("k"), Payload::json("{}")).into()
}

async fn push(engine: &Engine, jobs: Vec<NewJob>) -> Vec<Taken> {
    engine.push_all(jobs.into()).await.expect("pushed").jobs
}

async fn fetch(engine: &Engine, n: usize) -> Vec<Job> {
    let ask = Fetch { n, ..Fetch::new(name("q"), name("w")) };
    engine.fetch(ask).await.expect("fetched")
}

const DONE: Outcome = Outcome::Done { result: None };

/// A job's way through the engine, and every answer on it.
async fn from_push_to_end(engine: Engine) {
    let ids: Vec<_> = push(&engine, vec![job(), job()]).await.iter().map(Taken::id).collect();
    let jobs = fetch(&engine, 5).await;
    assert_eq!(jobs.iter().map(|job| Some(job.id)).collect::<Vec<_>>(), ids, "in order");
    assert!(fetch(&engine, 1).await.is_empty(), "an empty queue is an answer");
    let lease = Renew { id: jobs[0].id, delivery: jobs[0].live.delivery, span: None };
    let renewed = engine.renew(vec![lease]).await.expect("renewed");
    assert!(matches!(renewed[0], Renewed::Until { stop: false, .. }));
    let done = engine.finish(Finish::of(&jobs[0], DONE)).await.expect("finished");
    assert!(matches!(done, Finished::Yes { state: Some(State::Done), .. }), "{done:?}");
    let again = engine.finish(Finish::of(&jobs[0], DONE)).await.expect("answered");
    assert_eq!(again, Finished::Stale, "the first report wins");
    let failed =
        Outcome::Failed { error: "no".into(), detail: None, again: Again::After(Span::ZERO) };
    let failed = engine.finish(Finish::of(&jobs[1], failed)).await.expect("finished");
    assert!(matches!(failed, Finished::Yes { .. }), "{failed:?}");
    let cancelled = engine.jobs().act(jobs[1].id.into(), &Act::Cancel).await.expect("acted");
    assert_eq!(cancelled, Acted::Yes(Some(State::Cancelled)));
    let renewed = engine.renew(vec![lease]).await.expect("answered");
    assert_eq!(renewed, [Renewed::Stale], "after the end");
}

/// One of each thing that a job may be refused or held for.
async fn keys_limits_and_dependencies(engine: Engine) {
    let limit = Limit::parse("concurrency 1").expect("a limit");
    engine.limits().set(name("one"), limit).await.expect("set");
    let mut only = job();
    only.spec.unique = Some(Unique { key: "u".into(), hold: Hold::UntilEnd, window: None });
    let first = push(&engine, vec![only.clone()]).await[0].id().expect("an id");
    assert_eq!(push(&engine, vec![only]).await, [Taken::Duplicate(first)]);
    let mut waits = job();
    let needs = crore_core::job::Needs::Success;
    waits.after.push(After { on: AfterRef::Job(first), needs });
    push(&engine, vec![job(), waits]).await;
    let running = fetch(&engine, 3).await;
    assert_eq!(running.len(), 1, "one at a time");
    engine.finish(Finish::of(&running[0], DONE)).await.expect("finished");
    engine.limits().remove(name("one")).await.expect("removed");
    assert_eq!(fetch(&engine, 3).await.len(), 2, "the other, and the one that waited");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_its_way_on_postgres() {
    if let Some((store, clock)) = crate::postgres::shared_store().await {
        from_push_to_end(over(store, clock).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_limits_and_dependencies_hold_on_postgres() {
    if let Some((store, clock)) = crate::postgres::shared_store().await {
        keys_limits_and_dependencies(over(store, clock).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_its_way_on_redis() {
    let (store, clock) = crate::redis::single().await;
    from_push_to_end(over(store, (*clock).clone()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_limits_and_dependencies_hold_on_a_redis_cluster() {
    let (store, clock) = crate::redis::clustered(1).await;
    keys_limits_and_dependencies(over(store, (*clock).clone()).await).await;
}
