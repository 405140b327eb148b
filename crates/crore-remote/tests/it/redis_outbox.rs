//! Effects across shards happen exactly once, even if the store that started them crashes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crore_core::job::DependencyCondition;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::{Batch, JobId, NewJob, State};
use crore_remote::redis::Redis;
use crore_store::jobs::{Applied, Pushed};
use crore_store::{Error, Jobs, Registry};
use crore_testkit::{FakeClock, unique_name};

use crate::redis::{apply, claim, done, keyed, open_at, push, shards_of};

/// Two stores over the same eight shards; the first stops between commit and delivery.
async fn halted_and_working_store() -> (Redis, Arc<Redis>) {
    let (prefix, clock) = (unique_name("r"), Arc::new(FakeClock::default()));
    let doomed = open_at(&prefix, 8, Some(&clock)).await;
    doomed.halt_before_delivery();
    (doomed, Arc::new(open_at(&prefix, 8, Some(&clock)).await))
}

fn many(queue: &str) -> Vec<NewJob> {
    (0..24).map(|n| keyed(queue, &format!("{queue}-{n}"))).collect()
}

fn assert_unavailable<T>(answer: &Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Unavailable(_))));
}

/// Delivers from several tasks at once, and then again.
async fn deliver(store: &Arc<Redis>) {
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.deliver_outbox().await })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("delivered");
    }
    store.deliver_outbox().await.expect("delivered");
}

async fn claim_all(store: &Redis, queue: &str) -> BTreeSet<JobId> {
    let jobs = claim(store, queue, 1000).await;
    let ids: BTreeSet<_> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(ids.len(), jobs.len());
    ids
}

#[tokio::test]
async fn a_push_that_stopped_after_its_commit_is_completed_once() {
    let (doomed, other) = halted_and_working_store().await;
    assert_unavailable(&doomed.push(many("q").into()).await);
    let early = claim_all(&other, "q").await;
    assert!(early.len() < 24, "some are in flight");
    deliver(&other).await;
    let late = claim_all(&other, "q").await;
    let all: BTreeSet<_> = early.union(&late).copied().collect();
    assert_eq!((early.len() + late.len(), all.len()), (24, 24));
    assert_eq!(shards_of(all.clone(), 8).len(), 8);
    let duplicate = |answer| match answer {
        Pushed::Duplicate(id) => Some(id),
        _ => None,
    };
    let again = push(&other, many("q")).await.into_iter().filter_map(duplicate);
    assert_eq!(again.collect::<BTreeSet<_>>(), all, "every key belongs to its job");
}

#[tokio::test]
async fn push_that_meets_an_unfinished_push_completes_it() {
    let (doomed, other) = halted_and_working_store().await;
    assert_unavailable(&doomed.push(many("q").into()).await);
    for job in many("q") {
        let answer = push(&other, vec![job]).await;
        assert!(matches!(answer[..], [Pushed::Duplicate(_)]), "{answer:?}");
    }
    assert_eq!(claim_all(&other, "q").await.len(), 24);
}

#[tokio::test]
async fn opening_completes_interrupted_writes() {
    let (prefix, clock) = (unique_name("r"), Arc::new(FakeClock::default()));
    let doomed = open_at(&prefix, 8, Some(&clock)).await;
    doomed.halt_before_delivery();
    assert_unavailable(&doomed.push(many("q").into()).await);
    let next = open_at(&prefix, 8, Some(&clock)).await;
    assert_eq!(claim_all(&next, "q").await.len(), 24);
}

#[tokio::test]
async fn follow_ups_in_other_shards_are_pushed_once() {
    let (doomed, other) = halted_and_working_store().await;
    push(&other, vec![keyed("first", "first")]).await;
    let first = claim(&other, "first", 1).await.remove(0);
    assert_unavailable(&doomed.apply(vec![done(&first, many("then"))]).await);
    assert_eq!(apply(&other, done(&first, many("then"))).await, Applied::Stale);
    deliver(&other).await;
    let jobs = claim(&other, "then", 1000).await;
    let mut parents: Vec<_> = jobs.iter().filter_map(|job| job.spec.parent).collect();
    parents.sort_unstable();
    assert_eq!(parents, (0..24).map(|n| (first.id, n)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_group_over_many_shards_counts_each_member_once_and_releases_its_follow_up() {
    let (doomed, other) = halted_and_working_store().await;
    let mut jobs = many("q");
    jobs.iter_mut().for_each(|job| job.group = Some(GroupRef::New(0)));
    let mut then = keyed("then", "then");
    then.after = vec![NewDependency {
        on: NewDependencyTarget::Group(GroupRef::New(0)),
        needs: DependencyCondition::Success,
    }];
    jobs.push(then);
    let batch = Batch { groups: vec![NewGroup { open: false, maker: None }], jobs };
    let pushed = other.push(batch).await.expect("an answer").into_inner();
    let follow_up = pushed.jobs[24].id().expect("new");
    let running = claim(&other, "q", 1000).await;
    assert_eq!((running.len(), claim(&other, "then", 1).await), (24, vec![]));
    let writes = running.iter().map(|job| done(job, Vec::new())).collect();
    assert_unavailable(&doomed.apply(writes).await);
    deliver(&other).await;
    let group = other.group(pushed.groups[0]).await.expect("an answer").expect("it exists");
    assert_eq!((group.size, group.ran, group.succeeded), (24, 24, 24));
    assert_eq!(claim_all(&other, "then").await, [follow_up].into());
}

#[tokio::test]
async fn dependants_in_other_shards_are_released_once() {
    let (doomed, other) = halted_and_working_store().await;
    let mut jobs = vec![keyed("first", "first"), keyed("first", "second")];
    for mut job in many("q") {
        job.after = [0, 1]
            .map(|n| NewDependency {
                on: NewDependencyTarget::Earlier(n),
                needs: DependencyCondition::Success,
            })
            .to_vec();
        jobs.push(job);
    }
    assert_unavailable(&doomed.push(jobs.into()).await);
    deliver(&other).await;
    let running = claim(&other, "first", 9).await;
    assert_eq!(running.len(), 2);
    assert_unavailable(&doomed.apply(vec![done(&running[0], Vec::new())]).await);
    deliver(&other).await;
    assert_eq!(claim(&other, "q", 1000).await, [], "each still waits for the second");
    assert_unavailable(&doomed.apply(vec![done(&running[1], Vec::new())]).await);
    deliver(&other).await;
    let jobs = claim(&other, "q", 1000).await;
    assert_eq!(jobs.len(), 24);
    assert!(jobs.iter().all(|job| job.live.state == State::Running && job.live.waits == 0));
}

#[tokio::test]
async fn a_follow_up_may_take_the_key_that_its_parent_frees() {
    let (_, store) = halted_and_working_store().await;
    push(&store, vec![keyed("q", "key")]).await;
    let parent = claim(&store, "q", 1).await.remove(0);
    let then: Vec<_> = ["key", "a", "b", "c"].map(|key| keyed("then", key)).into();
    let Applied::Yes(pushed) = apply(&store, done(&parent, then)).await else {
        panic!("the report counts");
    };
    assert!(pushed.iter().all(|answer| matches!(answer, Pushed::New(_))), "{pushed:?}");
    let again = push(&store, vec![keyed("q", "key")]).await;
    assert_eq!(again, [Pushed::Duplicate(pushed[0].id().expect("new"))]);
}
