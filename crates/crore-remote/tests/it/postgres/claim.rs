use crore_core::job::{DEFAULT_LEASE, DueTime};
use crore_core::{Delivery, JobId, NewJob, Span, Time};
use crore_store::Jobs;
use crore_store::jobs::{Claim, QueueOrder, Renew, Renewed};
use crore_store::registry::{QueueSettings, RegistryValue};

use super::{ask, job, name, spec, subject};

fn at(queue: &str, kind: &str, priority: i32) -> NewJob {
    let mut spec = spec(queue, kind);
    spec.priority = priority;
    spec.into()
}

#[tokio::test]
async fn order_is_priority_then_due_then_id_over_kinds_and_queues() {
    let Some(it) = subject().await else { return };
    let first = it.push(vec![at("a", "x", 5), at("b", "y", -5), at("a", "y", 0)]).await;
    it.clock.advance(Span::from_millis(5));
    let later = it.push(vec![at("b", "x", 0), at("a", "x", i32::MIN), at("a", "z", 0)]).await;
    let expected = [later[1], first[1], first[2], later[0], later[2], first[0]];
    assert_eq!(it.claim_ids(ask(&["b", "a", "b", "nowhere"], 2)).await, expected[..2]);
    assert_eq!(it.claim_ids(ask(&["a", "b"], 3)).await, expected[2..5]);
    assert_eq!(it.claim_ids(ask(&["a", "b"], 9)).await, expected[5..]);
}

#[tokio::test]
async fn strict_order_takes_queue_by_queue() {
    let Some(it) = subject().await else { return };
    let ids = it.push(vec![at("a", "x", 9), at("b", "x", -9), at("a", "y", 3)]).await;
    let strict = |n| Claim { order: QueueOrder::Strict, ..ask(&["a", "b"], n) };
    assert_eq!(it.claim_ids(strict(1)).await, [ids[2]]);
    assert_eq!(it.claim_ids(strict(5)).await, [ids[0], ids[1]]);
}

#[tokio::test]
async fn kinds_and_paused_queues_restrict_a_claim() {
    let Some(it) = subject().await else { return };
    let ids = it.push(vec![at("q", "x", 0), at("q", "y", 0), at("q", "z", 0)]).await;
    let kinds = |kinds: &[&str]| Claim {
        kinds: Some(kinds.iter().map(|kind| name(kind)).collect()),
        ..ask(&["q"], 9)
    };
    let settings =
        |paused| RegistryValue::Queue(QueueSettings { paused, ..QueueSettings::default() });
    assert_eq!(it.claim_ids(kinds(&[])).await, []);
    assert_eq!(it.claim_ids(kinds(&["nothing"])).await, []);
    it.define("q", settings(true)).await;
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, []);
    it.define("q", settings(false)).await;
    assert_eq!(it.claim_ids(kinds(&["z", "x", "z"])).await, [ids[0], ids[2]]);
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [ids[1]]);
}

#[tokio::test]
async fn an_empty_claim_returns_the_time() {
    let Some(it) = subject().await else { return };
    it.push(vec![job("q")]).await;
    for empty in [ask(&["q"], 0), ask(&[], 5), ask(&["elsewhere"], 5)] {
        let claimed = it.store.claim(empty).await.expect("claims");
        assert_eq!((claimed.now, claimed.jobs, claimed.next_at), (it.now(), vec![], None));
    }
    assert_eq!(it.claim(ask(&["q"], usize::MAX)).await.len(), 1);
}

#[tokio::test]
async fn jobs_that_are_not_due_are_not_claimed() {
    let Some(it) = subject().await else { return };
    it.push(vec![NewJob { due: DueTime::After(Span::from_millis(1)), ..job("q") }]).await;
    assert_eq!(it.claim(ask(&["q"], 9)).await, []);
}

#[tokio::test]
async fn the_clock_is_that_of_the_database_unless_a_test_sets_one() {
    let Some(it) = subject().await else { return };
    let mut options = it.options.clone();
    options.clock = None;
    let store = crore_remote::sql::Postgres::open(&it.url, options).await.expect("opens");
    let before = store.push(job("q").into()).await.expect("pushes").into_inner().now;
    let claimed = store.claim(ask(&["q"], 1)).await.expect("claims");
    assert!(claimed.now >= before && claimed.now.since(before) < Span::from_secs(60));
    assert!(before > Time::from_millis(1_700_000_000_000), "{before:?}");
    assert_eq!(claimed.jobs.len(), 1);
    let renew =
        Renew { id: claimed.jobs[0].id, delivery: claimed.jobs[0].live.delivery, span: None };
    let renewed = store.renew(vec![renew]).await.expect("renews");
    assert!(
        matches!(renewed[0], Renewed::Until { until, .. } if until >= claimed.jobs[0].live.lease_until)
    );
}

#[tokio::test]
async fn a_lease_grows_and_never_shrinks_and_only_for_its_delivery() {
    let Some(it) = subject().await else { return };
    let ids = it.push(vec![job("q"), job("q"), at("q", "forget", 0)]).await;
    let running = it.claim(ask(&["q"], 2)).await;
    let start = it.now();
    it.clock.advance(Span::from_secs(10));
    let renew = |n: usize, delivery, span: Option<u64>| Renew {
        id: running[n].id,
        delivery,
        span: span.map(Span::from_secs),
    };
    let (one, two) = (running[0].live.delivery, running[1].live.delivery);
    assert_ne!(one, two);
    let until = |until| Renewed::Until { until, stop: false };
    let answers = it
        .store
        .renew(vec![
            renew(1, two, None),
            renew(0, two, None),
            renew(0, one, Some(1)),
            renew(0, one, Some(100)),
            renew(0, one, None),
            Renew { id: ids[2], delivery: Delivery::NONE, span: None },
            Renew { id: JobId(u64::MAX), delivery: Delivery(u64::MAX), span: Some(Span::MAX) },
        ])
        .await
        .expect("renews");
    let now = it.now();
    let hundred = until(now.after(Span::from_secs(100)));
    let expected = [
        until(now.after(DEFAULT_LEASE)),
        Renewed::Stale,
        until(start.after(DEFAULT_LEASE)),
        hundred,
        hundred,
        Renewed::Stale,
        Renewed::Stale,
    ];
    assert_eq!(answers, expected);
    let first = it.get(running[0].id).await.expect("stored");
    assert_eq!(first.live.lease_until, now.after(Span::from_secs(100)));
    assert_eq!(first.live.revision, running[0].live.revision, "a renewal is not a change");
    let forever = it.store.renew(vec![renew(0, one, Some(u64::MAX))]).await.expect("renews");
    assert_eq!(forever, [until(Time::MAX)]);
}
