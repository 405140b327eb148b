//! A job that waits for others is released by what becomes of them.

use crore_core::job::Needs;
use crore_core::machine::{Again, Event, Outcome};
use crore_core::push::AfterRef;
use crore_core::{Job, JobId, NewJob, Span, State};
use crore_store::jobs::Applied;

use super::super::draft::{Draft, MINUTE, SECOND, job};
use super::super::subject::{Few, change, failed};

/// A job in queue `then` that waits for another.
pub(super) fn after(id: JobId, needs: Needs) -> NewJob {
    job("then").after(AfterRef::Job(id), needs)
}

pub(super) async fn state(s: &Few, id: JobId) -> State {
    s.job(id).await.live.state
}

pub(super) async fn retried(s: &Few, id: JobId) -> Job {
    s.happens_to(id, &Event::Retry).await;
    let job = s.claim_one("q").await;
    assert_eq!(job.id, id);
    job
}

pub(in super::super) async fn success_releases_whoever_waits(s: &Few) {
    let first = s.push(job("q")).await;
    let needs_success = s.push(after(first, Needs::Success)).await;
    let needs_end = s.push(after(first, Needs::End)).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [], "they wait");
    let running = s.claim_one("q").await;
    assert_eq!(state(s, needs_end).await, State::Waiting, "and wait while it runs");
    s.done(&running).await;
    let live = s.job(needs_end).await.live;
    assert_eq!((live.state, live.waits), (State::Ready, 0));
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_success, needs_end]);
}

pub(in super::super) async fn death_releases_who_needs_the_end_and_holds_who_needs_success(
    s: &Few,
) {
    let first = s.start(job("q")).await;
    let needs_success = s.push(after(first.id, Needs::Success)).await;
    let needs_end = s.push(after(first.id, Needs::End)).await;
    s.dies(&first).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_end]);
    let held = s.job(needs_success).await.live;
    assert_eq!((held.state, held.broken), (State::Waiting, false));
    s.done(&retried(s, first.id).await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_success]);
}

pub(in super::super) async fn a_retry_releases_nobody(s: &Few) {
    let first = s.start(job("q")).await;
    let waits = s.push(after(first.id, Needs::End)).await;
    s.ends(&first, failed(Again::After(Span::ZERO))).await;
    s.ends(&s.claim_one("q").await, Outcome::Interrupted).await;
    assert_eq!(state(s, waits).await, State::Waiting);
}

pub(in super::super) async fn a_job_waits_for_all_that_it_names(s: &Few) {
    let ids = s.push_all(vec![job("q"), job("q"), job("q")]).await;
    let new = ids.iter().fold(job("then"), |job, id| job.after(AfterRef::Job(*id), Needs::Success));
    let waits = s.push(new).await;
    for left in [2, 1, 0] {
        s.done(&s.claim_one("q").await).await;
        let live = s.job(waits).await.live;
        assert_eq!(live.waits, left);
        assert_eq!(live.state, if left > 0 { State::Waiting } else { State::Ready });
    }
}

pub(in super::super) async fn who_waits_for_what_came_true_before_does_not_wait(s: &Few) {
    let done = s.start(job("q")).await;
    s.done(&done).await;
    let dead = s.start(job("q")).await;
    s.dies(&dead).await;
    let cancelled = s.push(job("q")).await;
    s.happens_to(cancelled, &Event::Cancel).await;
    for (id, needs) in [
        (done.id, Needs::Success),
        (done.id, Needs::End),
        (dead.id, Needs::End),
        (cancelled, Needs::End),
    ] {
        let id = s.push(after(id, needs)).await;
        let live = s.job(id).await.live;
        assert_eq!((live.state, live.waits), (State::Ready, 0), "{needs:?}");
    }
}

pub(in super::super) async fn who_needs_the_success_of_a_dead_job_is_held(s: &Few) {
    let dead = s.start(job("q")).await;
    s.dies(&dead).await;
    let held = s.push(after(dead.id, Needs::Success)).await;
    assert_eq!(state(s, held).await, State::Waiting);
    s.done(&retried(s, dead.id).await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [held]);
}

pub(in super::super) async fn a_released_job_that_is_due_later_is_scheduled(s: &Few) {
    let first = s.start(job("q")).await;
    let due = s.now().after(MINUTE);
    let id = s.push(after(first.id, Needs::Success).later(MINUTE)).await;
    assert_eq!(state(s, id).await, State::Waiting);
    s.pass(SECOND);
    s.done(&first).await;
    let live = s.job(id).await.live;
    assert_eq!((live.state, live.due), (State::Scheduled, due));
}

pub(in super::super) async fn a_released_job_that_is_overdue_is_ready(s: &Few) {
    let first = s.start(job("q")).await;
    let id = s.push(after(first.id, Needs::Success).later(SECOND)).await;
    s.pass(SECOND);
    s.done(&first).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [id]);
}

/// What an end has released it does not release again, when it comes a second time.
pub(in super::super) async fn a_second_end_releases_nobody_twice(s: &Few) {
    let first = s.start(job("q")).await;
    let other = s.push(job("other")).await;
    let new = after(first.id, Needs::End).after(AfterRef::Job(other), Needs::Success);
    let waits = s.push(new).await;
    s.dies(&first).await;
    assert_eq!(s.job(waits).await.live.waits, 1);
    s.dies(&retried(s, first.id).await).await;
    s.done(&retried(s, first.id).await).await;
    let live = s.job(waits).await.live;
    assert_eq!((live.state, live.waits), (State::Waiting, 1), "it still waits for the other");
    s.done(&s.claim_one("other").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [waits]);
}

pub(in super::super) async fn a_release_makes_older_decisions_stale(s: &Few) {
    let first = s.start(job("q")).await;
    let id = s.push(after(first.id, Needs::Success)).await;
    let waiting = s.job(id).await;
    s.done(&first).await;
    let ready = s.job(id).await;
    assert!(ready.live.revision > waiting.live.revision);
    assert_eq!(s.apply(change(&waiting, &Event::Cancel)).await, Applied::Stale);
    assert_eq!(s.job(id).await, ready);
}

pub(in super::super) async fn a_release_does_not_wake_the_dead(s: &Few) {
    let first = s.start(job("q")).await;
    let cancelled = s.push(after(first.id, Needs::Success)).await;
    let deleted = s.push(after(first.id, Needs::End)).await;
    s.happens_to(cancelled, &Event::Cancel).await;
    s.happens_to(deleted, &Event::Delete).await;
    s.done(&first).await;
    assert_eq!(state(s, cancelled).await, State::Cancelled);
    assert_eq!(s.find(deleted).await, None);
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

/// A cancelled job that is retried by hand waits again for what it waited for, and no more.
pub(in super::super) async fn a_cancelled_dependant_that_is_retried_waits_for_the_rest(s: &Few) {
    let first = s.start(job("q")).await;
    let id = s.push(after(first.id, Needs::Success)).await;
    s.happens_to(id, &Event::Cancel).await;
    s.happens_to(id, &Event::Retry).await;
    assert_eq!(state(s, id).await, State::Waiting);
    s.done(&first).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [id]);
}

pub(in super::super) async fn dependants_of_dependants_go_one_after_the_other(s: &Few) {
    let next = |n| job("then").after(AfterRef::Earlier(n), Needs::Success);
    let ids = s.push_all(vec![job("then"), next(0), next(1), next(2)]).await;
    for id in ids {
        let job = s.claim_one("then").await;
        assert_eq!(job.id, id);
        assert_eq!(s.claim_ids(&["then"], 9).await, [], "one at a time");
        s.done(&job).await;
    }
}
