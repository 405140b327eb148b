//! Specifics of the Redis store: shards, clocks, keys, scripts.

use std::collections::BTreeSet;
use std::sync::Arc;

use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{JobEvent, Outcome, Report, decide};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::KindVersions;
use crore_core::{Job, JobId, Name, NewJob, Payload, Span, Spec};
use crore_remote::redis::{Redis, RedisOptions};
use crore_store::jobs::{Applied, Claim, JobSelector, Pushed, QueueOrder, StoreWrite};
use crore_store::registry::{Define, RegistryValue};
use crore_store::{Jobs, Registry};
use crore_testkit::{FakeClock, ServerDurability, shared, unique_name};

/// A store of its own in the shared Cluster, and its clock.
pub(crate) async fn clustered(shards: usize) -> (Arc<Redis>, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::default());
    let store = open_at(&unique_name("r"), shards, Some(&clock)).await;
    (Arc::new(store), clock)
}

/// A store of its own in the shared Redis, and its clock.
pub(crate) async fn single() -> (Arc<Redis>, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::default());
    let options = RedisOptions { prefix: unique_name("r"), shards: 1, clock: Some(clock.clone()) };
    let url = shared::redis().expect("a Redis");
    let store = Redis::open(&url, options).await.expect("Redis is there");
    (Arc::new(store), clock)
}

/// A store in the Cluster, by its prefix.
pub(crate) async fn open_at(prefix: &str, shards: usize, clock: Option<&Arc<FakeClock>>) -> Redis {
    let nodes = shared::redis_cluster().expect("a Redis Cluster");
    let nodes: Vec<_> = nodes.iter().map(|node| format!("redis://{node}")).collect();
    let clock = clock.map(|clock| Arc::clone(clock) as _);
    let options = RedisOptions { prefix: prefix.to_owned(), shards, clock };
    Redis::open_cluster(&nodes, options).await.expect("the cluster is there")
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

pub(crate) fn job(queue: &str) -> NewJob {
    Spec::new(name(queue), name("k"), Payload::json("{}")).into()
}

pub(crate) fn keyed(queue: &str, key: &str) -> NewJob {
    let mut job = job(queue);
    job.spec.unique =
        Some(Box::new(Unique { key: key.into(), hold: UniqueHold::UntilEnd, window: None }));
    job
}

pub(crate) fn limited(queue: &str, limit: &str) -> NewJob {
    let mut job = job(queue);
    job.spec.limits = vec![LimitKey { limit: name(limit), value: None }];
    job
}

pub(crate) async fn define_limit(store: &Redis, limit: &str, text: &str) {
    let value = RegistryValue::Limit(Limit::parse(text).expect("a limit"));
    store.define(vec![Define::set(name(limit), value)]).await.expect("an answer").into_inner();
}

pub(crate) async fn push(store: &Redis, jobs: Vec<NewJob>) -> Vec<Pushed> {
    store.push(jobs.into()).await.expect("an answer").into_inner().jobs
}

pub(crate) async fn claim(store: &Redis, queue: &str, n: usize) -> Vec<Job> {
    let ask = Claim {
        queues: vec![name(queue)],
        kinds: None,
        versions: KindVersions::default(),
        n,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    store.claim(ask).await.expect("an answer").jobs
}

pub(crate) fn done(job: &Job, then: Vec<NewJob>) -> StoreWrite {
    let outcome = Outcome::Done { result: None };
    let report = Report { on_done: then, ..outcome.into() };
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
    StoreWrite::Job(decide(job, &event, 0).expect("the report counts"))
}

pub(crate) async fn apply(store: &Redis, write: StoreWrite) -> Applied {
    store.apply(vec![write]).await.expect("an answer").into_inner().remove(0)
}

pub(crate) fn shards_of(ids: impl IntoIterator<Item = JobId>, shards: u64) -> BTreeSet<u64> {
    ids.into_iter().map(|id| id.0 % shards).collect()
}

#[tokio::test]
async fn a_batch_with_keys_of_several_shards_is_stored_whole() {
    let (store, _) = clustered(8).await;
    let batch: Vec<_> = (0..40).map(|n| keyed("q", &format!("key-{n}"))).collect();
    let answers = push(&store, batch.clone()).await;
    let ids: Vec<_> = answers.iter().filter_map(|answer| answer.id()).collect();
    assert!(answers.iter().all(|answer| matches!(answer, Pushed::New(_))), "{answers:?}");
    assert_eq!(shards_of(ids.clone(), 8).len(), 8);
    let jobs = store.get(JobSelector::all(&ids)).await.expect("an answer");
    assert!(
        jobs.iter()
            .zip(&batch)
            .all(|(job, new)| { job.as_ref().is_some_and(|job| *job.spec == new.spec) })
    );
    let again = push(&store, batch).await;
    let duplicates: Vec<_> = ids.into_iter().map(Pushed::Duplicate).collect();
    assert_eq!(again, duplicates);
}

#[tokio::test]
async fn order_is_merged_over_shards() {
    let (store, clock) = clustered(8).await;
    let mut expected = Vec::new();
    for n in 0..60 {
        let mut job = keyed("q", &format!("key-{n}"));
        job.spec.priority = (n * 7) % 5 - 2;
        let priority = job.spec.priority;
        let id = push(&store, vec![job]).await[0].id().expect("new");
        expected.push((priority, n, id));
        clock.advance(Span::from_millis(1));
    }
    expected.sort_unstable();
    let mut got = Vec::new();
    for n in [1, 7, 20, 2, 40] {
        got.extend(claim(&store, "q", n).await.into_iter().map(|job| job.id));
    }
    assert_eq!(got, expected.into_iter().map(|(_, _, id)| id).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_first_opening_fixes_the_number_of_shards() {
    let prefix = unique_name("r");
    assert_eq!(open_at(&prefix, 4, None).await.shards(), 4);
    assert_eq!(open_at(&prefix, 16, None).await.shards(), 4);
}

#[tokio::test]
async fn the_clock_is_that_of_redis_unless_a_test_sets_one() {
    let store = open_at(&unique_name("r"), 8, None).await;
    let id = push(&store, vec![job("q")]).await[0].id().expect("new");
    let claimed = claim(&store, "q", 1).await.remove(0);
    assert_eq!(claimed.id, id);
    assert!(claimed.live.pushed_at > FakeClock::START, "{:?}", claimed.live);
    assert!(claimed.live.started_at >= claimed.live.pushed_at);
}

#[tokio::test]
async fn stores_with_different_prefixes_do_not_see_each_other() {
    let (one, _) = clustered(2).await;
    let (other, _) = clustered(2).await;
    push(&one, vec![keyed("q", "key")]).await;
    assert_eq!(claim(&other, "q", 1).await, []);
    assert!(matches!(push(&other, vec![keyed("q", "key")]).await[..], [Pushed::New(_)]));
}

/// A Redis server that a test may break, a store in it, and the store's prefix and clock.
struct OwnRedis {
    server: crore_testkit::RedisServer,
    store: Redis,
    prefix: String,
    clock: Arc<FakeClock>,
}

async fn start_own() -> OwnRedis {
    let server = crore_testkit::RedisServer::start_with(ServerDurability::Fast).expect("a Redis");
    let clock = Arc::new(FakeClock::default());
    let prefix = unique_name("r");
    let options = RedisOptions { prefix: prefix.clone(), shards: 1, clock: Some(clock.clone()) };
    let store = Redis::open(&server.url(), options).await.expect("Redis is there");
    OwnRedis { server, store, prefix, clock }
}

impl OwnRedis {
    fn command(&self, words: &[&str]) -> String {
        self.server.command(words).expect("an answer")
    }

    /// The number of commands that were called, including those from scripts.
    fn calls(&self) -> u64 {
        let stats = self.command(&["INFO", "commandstats"]);
        let calls = stats.lines().filter(|line| !line.starts_with("cmdstat_info"));
        let number =
            |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        calls.filter_map(number).sum()
    }
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again() {
    let own = start_own().await;
    push(&own.store, vec![job("q")]).await;
    own.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(claim(&own.store, "q", 9).await.len(), 1);
}

#[tokio::test]
async fn a_broken_connection_pushes_nothing_twice_and_is_reopened() {
    let own = start_own().await;
    for n in 0..20 {
        push(&own.store, vec![job("q")]).await;
        own.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        let hurt = own.store.push(job("q").into()).await;
        let stored = 1 + usize::from(hurt.is_ok());
        assert_eq!(claim_after_trouble(&own.store).await, stored, "round {n}");
    }
}

/// Claims all jobs; the first attempt may still meet the broken connection.
async fn claim_after_trouble(store: &Redis) -> usize {
    let ask = || Claim {
        queues: vec![name("q")],
        kinds: None,
        versions: KindVersions::default(),
        n: 99,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    match store.claim(ask()).await {
        Ok(claimed) => claimed.jobs.len(),
        Err(_) => store.claim(ask()).await.expect("a new connection").jobs.len(),
    }
}

#[tokio::test]
async fn a_delivery_number_is_not_reused_even_if_redis_loses_the_counter() {
    let own = start_own().await;
    push(&own.store, vec![job("q"), job("q")]).await;
    let first = claim(&own.store, "q", 1).await.remove(0);
    own.command(&["DEL", &format!("{{{}:s0}}:clock", own.prefix)]);
    own.clock.advance(Span::from_millis(1));
    let second = claim(&own.store, "q", 1).await.remove(0);
    assert!(second.live.delivery > first.live.delivery);
}

#[tokio::test]
async fn jobs_behind_a_limit_do_not_slow_down_others() {
    let own = start_own().await;
    define_limit(&own.store, "x", "concurrency 0").await;
    let mut costs = Vec::new();
    // The first round only loads the scripts.
    for behind in [10, 10, 5000] {
        push(&own.store, vec![limited("q", "x"); behind]).await;
        push(&own.store, vec![job("q"); 5]).await;
        let before = own.calls();
        assert_eq!(claim(&own.store, "q", 5).await.len(), 5);
        costs.push(own.calls() - before);
    }
    assert_eq!(costs[1], costs[2]);
}

#[tokio::test]
async fn a_leaked_permit_is_found_when_permits_run_out() {
    let own = start_own().await;
    define_limit(&own.store, "x", "concurrency 1").await;
    push(&own.store, vec![limited("q", "x"), limited("q", "x")]).await;
    // As after a crash between the reservation and the claim.
    let held = format!("{{{}:l:x}}:held", own.prefix);
    let until = FakeClock::START.after(Span::from_secs(20)).as_millis().to_string();
    own.command(&["ZADD", &held, &until, "nobody-1"]);
    assert_eq!(claim(&own.store, "q", 9).await, []);
    own.clock.advance(Span::from_secs(20));
    let running = claim(&own.store, "q", 9).await;
    assert_eq!(running.len(), 1);
    // A held permit is checked too, and stays, however long its job runs.
    for _ in 0..5 {
        own.clock.advance(Span::from_secs(3600));
        assert_eq!(claim(&own.store, "q", 9).await, []);
    }
    apply(&own.store, done(&running[0], Vec::new())).await;
    assert_eq!(claim(&own.store, "q", 9).await.len(), 1);
}

#[tokio::test]
async fn a_key_held_by_a_push_that_never_committed_is_free_after_a_while() {
    let own = start_own().await;
    let locks = format!("{{{}:s0}}:locks", own.prefix);
    let held = format!("held:0:{}:nobody-1", FakeClock::START.as_millis());
    own.command(&["HSET", &locks, "u:key", &held]);
    let (pushed, ()) = tokio::join!(push(&own.store, vec![keyed("q", "key")]), async {
        own.clock.advance(Span::from_secs(16));
    });
    assert!(matches!(pushed[..], [Pushed::New(_)]), "{pushed:?}");
}

#[tokio::test]
async fn a_full_redis_refuses_pushes_and_accepts_reports() {
    let own = start_own().await;
    push(&own.store, vec![job("q")]).await;
    own.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = own.store.push(job("q").into()).await.expect_err("there is no room");
    assert!(matches!(refused, crore_store::Error::Full { .. }), "{refused:?}");
    own.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(claim(&own.store, "q", 9).await.len(), 1);
}
