//! The engine on the stores of this crate, which implement jobs and the registry, but neither upkeep nor
//! views yet.

use std::future::ready;
use std::sync::Arc;

use crore::actions::{ActionResult, JobAction};
use crore::core::machine::{Outcome, RetryDirective};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;
use crore::{Engine, Options};
use crore_core::group::Group;
use crore_core::limit::Limit;
use crore_core::push::{NewDependency, NewDependencyTarget};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{
    Batch, Clock, GroupId, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time,
};
use crore_store::jobs::{
    Applied, Claim, Claimed, JobSelector, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};
use crore_store::upkeep::{Lapses, Lead, Promoted, Pruned};
use crore_store::views::{
    JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note, StatStep,
};
use crore_store::{
    Committed, Events, Jobs, Registry, Store, StoreFuture, StoreId, Upkeep, Views, WakeHook,
};
use crore_testkit::FakeClock;

/// A store that implements only jobs and the registry: nothing is ever due, lapsed or listed.
#[derive(Debug)]
struct PartialStore<S> {
    store: Arc<S>,
    clock: FakeClock,
}

fn ready_answer<'a, T: Send + 'a>(answer: T) -> StoreFuture<'a, T> {
    Box::pin(ready(Ok(answer)))
}

impl<S: Jobs> Jobs for PartialStore<S> {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        self.store.push(batch)
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        self.store.claim(ask)
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        self.store.renew(leases)
    }

    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.store.apply(writes)
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.store.get(which)
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.store.holders(keys)
    }
}

impl<S: Registry> Registry for PartialStore<S> {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        self.store.define(definitions)
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.store.entries(table, after, n)
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.store.group(id)
    }
}

impl<S: Jobs> Events for PartialStore<S> {}

impl<S: Jobs> Upkeep for PartialStore<S> {
    fn promote(&self, _: usize) -> StoreFuture<'_, Promoted> {
        ready_answer(Promoted { now: self.clock.now(), count: 0, next_at: None })
    }

    fn lapsed(&self, _: usize) -> StoreFuture<'_, Lapses> {
        let none = Vec::new;
        ready_answer(Lapses {
            now: self.clock.now(),
            lapsed: none(),
            broken: none(),
            expired: none(),
            timed_out: none(),
            next_at: None,
        })
    }

    fn prune(&self, _: usize) -> StoreFuture<'_, Pruned> {
        ready_answer(Pruned { jobs: 0, others: 0 })
    }

    fn lead(&self, _: Name, _: u64, span: Span) -> StoreFuture<'_, Lead> {
        ready_answer(Lead::Yes(self.clock.now().after(span)))
    }
}

impl<S: Jobs> Views for PartialStore<S> {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        ready_answer(notes.len())
    }

    fn notes(&self, _: JobId) -> StoreFuture<'_, JobNotes> {
        ready_answer(JobNotes::default())
    }

    fn list(&self, _: ListQuery) -> StoreFuture<'_, ListPage> {
        ready_answer(ListPage { jobs: Vec::new(), next: None })
    }

    fn counts(&self, _: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        ready_answer(Vec::new())
    }

    fn stats(&self, _: Name, _: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        ready_answer(Vec::new())
    }

    fn job_stats(&self, _: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        ready_answer(Vec::new())
    }
}

impl<S: Jobs + Registry> Store for PartialStore<S> {
    fn store_id(&self) -> StoreId {
        StoreId(1)
    }

    fn add_wake_hook(&self, _: WakeHook) {}
}

async fn engine_on<S: Jobs + Registry + 'static>(store: Arc<S>, clock: FakeClock) -> Engine {
    let half = PartialStore { store, clock: clock.clone() };
    let engine = Engine::without_thread(Arc::new(half), Arc::new(clock), Options::default()).await;
    engine.expect("an engine")
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn job() -> NewJob {
    Spec::new(name("q"), name("k"), Payload::json("{}")).into()
}

async fn push(engine: &Engine, jobs: Vec<NewJob>) -> Vec<PushResult> {
    engine.push_all(jobs.into()).await.expect("pushed").jobs
}

async fn fetch(engine: &Engine, n: usize) -> Vec<Job> {
    let ask = Fetch { n, ..Fetch::new(name("q"), name("w")) };
    engine.fetch(ask).await.expect("fetched")
}

const DONE: Outcome = Outcome::Done { result: None };

/// Takes jobs through the engine from push to end, and checks every answer.
async fn from_push_to_end(engine: Engine) {
    let ids: Vec<_> = push(&engine, vec![job(), job()]).await.iter().map(PushResult::id).collect();
    let jobs = fetch(&engine, 5).await;
    assert_eq!(jobs.iter().map(|job| Some(job.id)).collect::<Vec<_>>(), ids, "in order");
    assert!(fetch(&engine, 1).await.is_empty(), "an empty queue is a valid response");
    let lease = Renew { id: jobs[0].id, delivery: jobs[0].live.delivery, span: None };
    let renewed = engine.renew(vec![lease]).await.expect("renewed");
    assert!(matches!(renewed[0], Renewed::Until { stop: false, .. }));
    let done = engine.finish(Finish::of(&jobs[0], DONE)).await.expect("finished");
    assert!(matches!(done, FinishResult::Accepted { state: Some(State::Done), .. }), "{done:?}");
    let again = engine.finish(Finish::of(&jobs[0], DONE)).await.expect("answered");
    assert_eq!(again, FinishResult::Stale, "the first report wins");
    let failed = Outcome::Failed {
        error: "no".into(),
        detail: None,
        again: RetryDirective::After(Span::ZERO),
    };
    let failed = engine.finish(Finish::of(&jobs[1], failed)).await.expect("finished");
    assert!(matches!(failed, FinishResult::Accepted { .. }), "{failed:?}");
    let cancelled = engine.jobs().act(jobs[1].id.into(), &JobAction::Cancel).await.expect("acted");
    assert_eq!(cancelled, ActionResult::Applied(Some(State::Cancelled)));
    let renewed = engine.renew(vec![lease]).await.expect("answered");
    assert_eq!(renewed, [Renewed::Stale], "after the end");
}

/// Checks one unique key, one limit and one dependency.
async fn keys_limits_and_dependencies(engine: Engine) {
    let limit = Limit::parse("concurrency 1").expect("a limit");
    engine.limits().set(name("one"), limit).await.expect("set");
    let mut only = job();
    only.spec.unique =
        Some(Box::new(Unique { key: "u".into(), hold: UniqueHold::UntilEnd, window: None }));
    let first = push(&engine, vec![only.clone()]).await[0].id().expect("an id");
    assert_eq!(push(&engine, vec![only]).await, [PushResult::Duplicate(first)]);
    let mut waits = job();
    let needs = crore_core::job::DependencyCondition::Success;
    waits.after.push(NewDependency { on: NewDependencyTarget::Job(first), needs });
    push(&engine, vec![job(), waits]).await;
    let running = fetch(&engine, 3).await;
    assert_eq!(running.len(), 1, "one at a time");
    engine.finish(Finish::of(&running[0], DONE)).await.expect("finished");
    engine.limits().remove(name("one")).await.expect("removed");
    assert_eq!(fetch(&engine, 3).await.len(), 2, "the other job and the waiting one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_through_its_states_on_postgres() {
    if let Some((store, clock)) = crate::postgres::shared_store().await {
        from_push_to_end(engine_on(store, clock).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_limits_and_dependencies_hold_on_postgres() {
    if let Some((store, clock)) = crate::postgres::shared_store().await {
        keys_limits_and_dependencies(engine_on(store, clock).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_through_its_states_on_redis() {
    let (store, clock) = crate::redis::single().await;
    from_push_to_end(engine_on(store, (*clock).clone()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_limits_and_dependencies_hold_on_a_redis_cluster() {
    let (store, clock) = crate::redis::clustered(1).await;
    keys_limits_and_dependencies(engine_on(store, (*clock).clone()).await).await;
}
