//! What has had its time is removed, bounded and oldest first; nothing else is.

use crore_core::job::{Keep, Needs, Retain};
use crore_core::machine::{Event, Outcome};
use crore_core::push::{AfterRef, GroupRef};
use crore_core::unique::Hold;
use crore_core::{JobId, Payload, Span};
use crore_store::registry::{Define, QueueSettings, Value};
use crore_store::upkeep::{KEEP_GROUP, Pruned};

use super::super::draft::{DAY, Draft, MILLI, MINUTE, SECOND, grouped, job, jobs, name};
use super::super::subject::{Whole, got};

#[derive(Debug, Clone, Copy)]
enum End {
    Done,
    Dead,
    Cancelled,
}

/// A job that comes to its end now.
async fn ended(s: &Whole, queue: &str, end: End) -> JobId {
    let job = s.start(job(queue).priority(-1)).await;
    match end {
        End::Done => s.done(&job).await,
        End::Dead => s.dies(&job).await,
        End::Cancelled => {
            s.ends(&job, Outcome::Cancel).await;
        }
    }
    job.id
}

async fn prune(s: &Whole, n: usize) -> Pruned {
    got(s.store.prune(n)).await
}

async fn is_there(s: &Whole, id: JobId) -> bool {
    s.find(id).await.is_some()
}

pub(in super::super) async fn ended_jobs_are_kept_for_their_time(s: &Whole) {
    let settings =
        QueueSettings { keep_done: MINUTE, keep_dead: MINUTE.times(2), ..QueueSettings::default() };
    s.set_queue("q", settings).await;
    let mut all = Vec::new();
    for end in [End::Done, End::Dead, End::Cancelled] {
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
    s.pass(Span::from_millis(59_999));
    assert_eq!(prune(s, 9).await, Pruned { jobs: 0, others: 0 });
    there(vec![0, 1, 2]).await;
    s.pass(Span::from_millis(2));
    assert_eq!(prune(s, 9).await, Pruned { jobs: 2, others: 0 });
    there(vec![1]).await;
    s.pass(MINUTE);
    assert_eq!(prune(s, 9).await, Pruned { jobs: 1, others: 0 });
    there(vec![]).await;
}

pub(in super::super) async fn a_queue_without_settings_has_the_defaults(s: &Whole) {
    let (done, dead) = (ended(s, "q", End::Done).await, ended(s, "q", End::Dead).await);
    s.pass(DAY.times(1).plus(SECOND));
    prune(s, 9).await;
    assert!(!is_there(s, done).await, "a day");
    s.pass(DAY.times(178));
    prune(s, 9).await;
    assert!(is_there(s, dead).await, "less than 180 days");
    s.pass(DAY);
    prune(s, 9).await;
    assert!(!is_there(s, dead).await, "180 days");
}

pub(in super::super) async fn settings_whose_time_is_over_prune_nothing(s: &Whole) {
    let settings = QueueSettings { keep_done: Span::ZERO, max_done: 0, ..QueueSettings::default() };
    let define = Define::set(name("q"), Value::Queue(settings));
    s.define(Define { expires_after: Some(MINUTE), ..define }).await;
    let running = s.start(job("q")).await;
    s.pass(MINUTE);
    s.done(&running).await;
    assert_eq!(prune(s, 9).await.jobs, 0, "the queue has the defaults again");
    assert!(is_there(s, running.id).await);
}

pub(in super::super) async fn no_more_ended_jobs_are_kept_than_the_queue_says(s: &Whole) {
    let settings = QueueSettings { max_done: 2, max_dead: 1, ..QueueSettings::default() };
    s.set_queue("q", settings).await;
    for end in [End::Done, End::Cancelled, End::Dead] {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(ended(s, "q", end).await);
            s.pass(SECOND);
        }
        let elsewhere = ended(s, "r", end).await;
        let keep = if matches!(end, End::Dead) { 1 } else { 2 };
        assert_eq!(prune(s, 99).await.jobs, 4 - keep, "{end:?} are counted by themselves");
        for (n, id) in all.iter().enumerate() {
            assert_eq!(is_there(s, *id).await, n >= 4 - keep, "{end:?} {n}: the newest stay");
        }
        assert!(is_there(s, elsewhere).await, "other queues have settings of their own");
    }
}

pub(in super::super) async fn pruning_is_bounded_and_starts_with_the_oldest(s: &Whole) {
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(ended(s, "q", End::Done).await);
        s.pass(SECOND);
    }
    s.pass(DAY.plus(MINUTE));
    assert_eq!(prune(s, 0).await.jobs, 0);
    assert_eq!(prune(s, 2).await.jobs, 2);
    for (n, id) in all.iter().enumerate() {
        assert_eq!(is_there(s, *id).await, n >= 2, "job {n}");
    }
    assert_eq!(prune(s, 9).await.jobs, 3);
    assert_eq!(prune(s, 9).await, Pruned { jobs: 0, others: 0 }, "nothing is left");
}

pub(in super::super) async fn age_counts_from_the_end_and_not_from_the_push(s: &Whole) {
    s.push(job("q")).await;
    s.pass(DAY.times(2));
    let running = s.claim_one("q").await;
    s.pass(DAY.times(2));
    s.done(&running).await;
    assert_eq!(prune(s, 9).await.jobs, 0);
    assert!(is_there(s, running.id).await);
}

pub(in super::super) async fn live_jobs_are_never_pruned(s: &Whole) {
    let settings = QueueSettings {
        keep_done: Span::ZERO,
        max_done: 0,
        keep_dead: Span::ZERO,
        max_dead: 0,
        paused: false,
    };
    s.set_queue("q", settings).await;
    let running = s.start(job("q")).await;
    let waits = job("q").after(AfterRef::Job(running.id), Needs::Success);
    let rest = s.push_all(vec![job("q"), waits, job("q").later(MINUTE)]).await;
    s.pass(DAY.times(400));
    assert_eq!(prune(s, 99).await.jobs, 0);
    for id in rest.into_iter().chain([running.id]) {
        assert!(is_there(s, id).await);
    }
}

pub(in super::super) async fn a_retried_job_is_not_pruned_for_its_first_death(s: &Whole) {
    let dead = ended(s, "q", End::Dead).await;
    s.happens_to(dead, &Event::Retry).await;
    s.pass(DAY.times(200));
    assert_eq!(prune(s, 9).await.jobs, 0);
    s.dies(&s.claim_one("q").await).await;
    s.pass(DAY);
    assert_eq!(prune(s, 9).await.jobs, 0, "it died anew");
    assert!(is_there(s, dead).await);
}

pub(in super::super) async fn a_pruned_job_lets_go_of_what_it_held(s: &Whole) {
    let keyed = || job("q").unique("key", Hold::UntilSuccess).client("native", "mine");
    let dead = s.start(keyed()).await;
    let waits = s.push(job("then").after(AfterRef::Job(dead.id), Needs::Success)).await;
    s.dies(&dead).await;
    s.pass(DAY.times(181));
    assert_eq!(prune(s, 9).await.jobs, 1);
    let again = s.push(keyed()).await;
    assert!(again > dead.id, "its keys are free");
    assert!(s.job(waits).await.live.broken, "what it was can no longer succeed");
}

pub(in super::super) async fn pruning_a_job_takes_its_result_along(s: &Whole) {
    let running = s.start(job("q").keep(Keep::For(DAY.times(90)))).await;
    s.ends(&running, Outcome::Done { result: Some(Payload::json("1")) }).await;
    s.pass(DAY.times(2));
    assert_eq!(prune(s, 9).await.jobs, 1);
    assert!(!is_there(s, running.id).await);
    s.pass(DAY.times(90));
    assert_eq!(prune(s, 9).await, Pruned { jobs: 0, others: 0 });
}

pub(in super::super) async fn pruned_jobs_are_not_counted_nor_listed(s: &Whole) {
    s.push_all(jobs("q", 1)).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(got(s.store.counts(None)).await.len(), 1);
    s.pass(DAY.times(2));
    prune(s, 9).await;
    assert_eq!(got(s.store.counts(None)).await, []);
}

pub(in super::super) async fn a_group_goes_a_day_after_its_end(s: &Whole) {
    let pushes = s.batch(grouped(vec![job("q").member(GroupRef::New(0))])).await;
    let id = pushes.groups[0];
    s.pass(KEEP_GROUP);
    prune(s, 9).await;
    let running = s.claim_one("q").await;
    s.done(&running).await;
    s.clock.set(s.now().after(KEEP_GROUP).before(MILLI));
    prune(s, 9).await;
    assert!(got(s.store.group(id)).await.is_some(), "it ended less than a day ago");
    s.pass(MILLI);
    prune(s, 9).await;
    assert_eq!(got(s.store.group(id)).await, None);
}

/// Pruning takes nothing away that anybody could miss: not even what is used up of a rate whose limit
/// is not there for the moment.
pub(in super::super) async fn pruning_forgets_nothing_that_is_used_up(s: &Whole) {
    let limited = || job("q").limit("x").with(|job| job.spec.retain = Retain::Nothing);
    s.define_limit("x", "rate 1/1m burst 1").await;
    let running = s.start(limited()).await;
    s.done(&running).await;
    s.remove_limit("x").await;
    while prune(s, 9).await != (Pruned { jobs: 0, others: 0 }) {}
    s.define_limit("x", "rate 1/1m burst 1").await;
    let next = s.push(limited()).await;
    assert_eq!(s.claim_ids(&["q"], 1).await, []);
    s.pass(MINUTE);
    assert_eq!(s.claim_ids(&["q"], 1).await, [next]);
}
