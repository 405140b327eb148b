//! Expired records are removed in bounded slices, oldest first; nothing else is removed.

use crore_core::job::{DependencyCondition, JobRetention, ResultRetention};
use crore_core::machine::{JobEvent, Outcome};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::unique::UniqueHold;
use crore_core::{JobId, Payload, Span};
use crore_store::registry::{Define, QueueSettings, RegistryValue};
use crore_store::upkeep::{GROUP_RETENTION, Pruned};

use super::super::job_builder::{
    DAY, MILLI, MINUTE, NewJobBuilder, SECOND, grouped, job, jobs, name,
};
use super::super::subject::{StoreSubject, expect_ok};

#[derive(Debug, Clone, Copy)]
enum EndKind {
    Done,
    Dead,
    Cancelled,
}

/// A job that ends now.
async fn ended(s: &StoreSubject, queue: &str, end: EndKind) -> JobId {
    let job = s.start(job(queue).priority(-1)).await;
    match end {
        EndKind::Done => s.done(&job).await,
        EndKind::Dead => s.fail_for_good(&job).await,
        EndKind::Cancelled => {
            s.finish_as_decided(&job, Outcome::Cancel).await;
        }
    }
    job.id
}

async fn prune(s: &StoreSubject, n: usize) -> Pruned {
    expect_ok(s.store.prune(n)).await
}

async fn is_there(s: &StoreSubject, id: JobId) -> bool {
    s.find(id).await.is_some()
}

pub(in super::super) async fn ended_jobs_are_kept_for_their_retention(s: &StoreSubject) {
    let settings =
        QueueSettings { keep_done: MINUTE, keep_dead: MINUTE.times(2), ..QueueSettings::default() };
    s.set_queue("q", settings).await;
    let mut all = Vec::new();
    for end in [EndKind::Done, EndKind::Dead, EndKind::Cancelled] {
        all.push(ended(s, "q", end).await);
    }
    let there = |left: Vec<usize>| {
        let all = all.clone();
        async move {
            for (n, id) in all.into_iter().enumerate() {
                assert_eq!(is_there(s, id).await, left.contains(&n), "job {n} of {left:?}");
            }
        }
    };
    s.advance(Span::from_millis(59_999));
    assert_eq!(prune(s, 9).await, Pruned { jobs: 0, others: 0 });
    there(vec![0, 1, 2]).await;
    s.advance(Span::from_millis(2));
    assert_eq!(prune(s, 9).await, Pruned { jobs: 2, others: 0 });
    there(vec![1]).await;
    s.advance(MINUTE);
    assert_eq!(prune(s, 9).await, Pruned { jobs: 1, others: 0 });
    there(vec![]).await;
}

pub(in super::super) async fn a_queue_without_settings_has_the_defaults(s: &StoreSubject) {
    let (done, dead) = (ended(s, "q", EndKind::Done).await, ended(s, "q", EndKind::Dead).await);
    s.advance(DAY.times(1).plus(SECOND));
    prune(s, 9).await;
    assert!(!is_there(s, done).await, "a day");
    s.advance(DAY.times(178));
    prune(s, 9).await;
    assert!(is_there(s, dead).await, "less than 180 days");
    s.advance(DAY);
    prune(s, 9).await;
    assert!(!is_there(s, dead).await, "180 days");
}

pub(in super::super) async fn expired_settings_prune_nothing(s: &StoreSubject) {
    let settings = QueueSettings { keep_done: Span::ZERO, max_done: 0, ..QueueSettings::default() };
    let define = Define::set(name("q"), RegistryValue::Queue(settings));
    s.define(Define { expires_after: Some(MINUTE), ..define }).await;
    let running = s.start(job("q")).await;
    s.advance(MINUTE);
    s.done(&running).await;
    assert_eq!(prune(s, 9).await.jobs, 0, "the queue has its defaults again");
    assert!(is_there(s, running.id).await);
}

pub(in super::super) async fn ended_jobs_are_pruned_to_the_maximum_of_the_queue(s: &StoreSubject) {
    let settings = QueueSettings { max_done: 2, max_dead: 1, ..QueueSettings::default() };
    s.set_queue("q", settings).await;
    for end in [EndKind::Done, EndKind::Cancelled, EndKind::Dead] {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(ended(s, "q", end).await);
            s.advance(SECOND);
        }
        let elsewhere = ended(s, "r", end).await;
        let keep = if matches!(end, EndKind::Dead) { 1 } else { 2 };
        assert_eq!(prune(s, 99).await.jobs, 4 - keep, "{end:?} are counted separately");
        for (n, id) in all.iter().enumerate() {
            assert_eq!(is_there(s, *id).await, n >= 4 - keep, "{end:?} {n}: the newest stay");
        }
        assert!(is_there(s, elsewhere).await, "other queues have settings of their own");
    }
}

pub(in super::super) async fn pruning_is_bounded_and_starts_with_the_oldest(s: &StoreSubject) {
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(ended(s, "q", EndKind::Done).await);
        s.advance(SECOND);
    }
    s.advance(DAY.plus(MINUTE));
    assert_eq!(prune(s, 0).await.jobs, 0);
    assert_eq!(prune(s, 2).await.jobs, 2);
    for (n, id) in all.iter().enumerate() {
        assert_eq!(is_there(s, *id).await, n >= 2, "job {n}");
    }
    assert_eq!(prune(s, 9).await.jobs, 3);
    assert_eq!(prune(s, 9).await, Pruned { jobs: 0, others: 0 }, "nothing is left");
}

pub(in super::super) async fn age_counts_from_the_end_and_not_from_the_push(s: &StoreSubject) {
    s.push(job("q")).await;
    s.advance(DAY.times(2));
    let running = s.claim_one("q").await;
    s.advance(DAY.times(2));
    s.done(&running).await;
    assert_eq!(prune(s, 9).await.jobs, 0);
    assert!(is_there(s, running.id).await);
}

pub(in super::super) async fn live_jobs_are_never_pruned(s: &StoreSubject) {
    let settings = QueueSettings {
        fair: None,
        index: None,
        keep_done: Span::ZERO,
        max_done: 0,
        keep_dead: Span::ZERO,
        max_dead: 0,
        paused: false,
    };
    s.set_queue("q", settings).await;
    let running = s.start(job("q")).await;
    let waits = job("q").after(NewDependencyTarget::Job(running.id), DependencyCondition::Success);
    let rest = s.push_all(vec![job("q"), waits, job("q").later(MINUTE)]).await;
    s.advance(DAY.times(400));
    assert_eq!(prune(s, 99).await.jobs, 0);
    for id in rest.into_iter().chain([running.id]) {
        assert!(is_there(s, id).await);
    }
}

pub(in super::super) async fn a_retried_job_is_not_pruned_for_its_first_death(s: &StoreSubject) {
    let dead = ended(s, "q", EndKind::Dead).await;
    s.apply_to_current(dead, &JobEvent::Retry).await;
    s.advance(DAY.times(200));
    assert_eq!(prune(s, 9).await.jobs, 0);
    s.fail_for_good(&s.claim_one("q").await).await;
    s.advance(DAY);
    assert_eq!(prune(s, 9).await.jobs, 0, "it died again later");
    assert!(is_there(s, dead).await);
}

pub(in super::super) async fn a_pruned_job_releases_what_it_held(s: &StoreSubject) {
    let keyed = || job("q").unique("key", UniqueHold::UntilSuccess).client("native", "mine");
    let dead = s.start(keyed()).await;
    let waits = s
        .push(job("then").after(NewDependencyTarget::Job(dead.id), DependencyCondition::Success))
        .await;
    s.fail_for_good(&dead).await;
    s.advance(DAY.times(181));
    assert_eq!(prune(s, 9).await.jobs, 1);
    let again = s.push(keyed()).await;
    assert!(again > dead.id, "its keys are free");
    assert!(s.job(waits).await.live.broken, "the removed job can no longer succeed");
}

pub(in super::super) async fn pruning_a_job_removes_its_result(s: &StoreSubject) {
    let running = s.start(job("q").keep(ResultRetention::For(DAY.times(90)))).await;
    s.finish_as_decided(&running, Outcome::Done { result: Some(Payload::json("1")) }).await;
    s.advance(DAY.times(2));
    assert_eq!(prune(s, 9).await.jobs, 1);
    assert!(!is_there(s, running.id).await);
    s.advance(DAY.times(90));
    assert_eq!(prune(s, 9).await, Pruned { jobs: 0, others: 0 });
}

pub(in super::super) async fn pruned_jobs_are_not_counted_nor_listed(s: &StoreSubject) {
    s.push_all(jobs("q", 1)).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(expect_ok(s.store.counts(None)).await.len(), 1);
    s.advance(DAY.times(2));
    prune(s, 9).await;
    assert_eq!(expect_ok(s.store.counts(None)).await, []);
}

pub(in super::super) async fn a_group_is_pruned_a_day_after_its_end(s: &StoreSubject) {
    let pushes = s.batch(grouped(vec![job("q").member(GroupRef::New(0))])).await;
    let id = pushes.groups[0];
    s.advance(GROUP_RETENTION);
    prune(s, 9).await;
    let running = s.claim_one("q").await;
    s.done(&running).await;
    s.clock.set(s.now().after(GROUP_RETENTION).before(MILLI));
    prune(s, 9).await;
    assert!(expect_ok(s.store.group(id)).await.is_some(), "the job ended less than a day ago");
    s.advance(MILLI);
    prune(s, 9).await;
    assert_eq!(expect_ok(s.store.group(id)).await, None);
}

/// Pruning removes nothing that is still needed, including the used part of a rate whose limit is temporarily
/// undefined.
pub(in super::super) async fn pruning_keeps_the_used_part_of_a_rate(s: &StoreSubject) {
    let limited = || job("q").limit("x").with(|job| job.spec.retain = JobRetention::Nothing);
    s.define_limit("x", "rate 1/1m burst 1").await;
    let running = s.start(limited()).await;
    s.done(&running).await;
    s.remove_limit("x").await;
    while prune(s, 9).await != (Pruned { jobs: 0, others: 0 }) {}
    s.define_limit("x", "rate 1/1m burst 1").await;
    let next = s.push(limited()).await;
    assert_eq!(s.claim_ids(&["q"], 1).await, []);
    s.advance(MINUTE);
    assert_eq!(s.claim_ids(&["q"], 1).await, [next]);
}
