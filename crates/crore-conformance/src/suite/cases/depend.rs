//! A waiting job is released when its dependencies end.

use crore_core::job::DependencyCondition;
use crore_core::machine::{JobEvent, Outcome, RetryDirective};
use crore_core::push::NewDependencyTarget;
use crore_core::{Job, JobId, NewJob, Span, State};
use crore_store::jobs::Applied;

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job};
use super::super::subject::{JobsSubject, change, failed};

/// A job in queue `then` that waits for another.
pub(super) fn after(id: JobId, needs: DependencyCondition) -> NewJob {
    job("then").after(NewDependencyTarget::Job(id), needs)
}

pub(super) async fn state(s: &JobsSubject, id: JobId) -> State {
    s.job(id).await.live.state
}

pub(super) async fn retried(s: &JobsSubject, id: JobId) -> Job {
    s.apply_to_current(id, &JobEvent::Retry).await;
    let job = s.claim_one("q").await;
    assert_eq!(job.id, id);
    job
}

pub(in super::super) async fn success_releases_all_waiting_jobs(s: &JobsSubject) {
    let first = s.push(job("q")).await;
    let needs_success = s.push(after(first, DependencyCondition::Success)).await;
    let needs_end = s.push(after(first, DependencyCondition::End)).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [], "they wait");
    let running = s.claim_one("q").await;
    assert_eq!(state(s, needs_end).await, State::Waiting, "and wait while it runs");
    s.done(&running).await;
    let live = s.job(needs_end).await.live;
    assert_eq!((live.state, live.waits), (State::Ready, 0));
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_success, needs_end]);
}

pub(in super::super) async fn death_releases_jobs_that_need_the_end_and_holds_jobs_that_need_success(
    s: &JobsSubject,
) {
    let first = s.start(job("q")).await;
    let needs_success = s.push(after(first.id, DependencyCondition::Success)).await;
    let needs_end = s.push(after(first.id, DependencyCondition::End)).await;
    s.fail_for_good(&first).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_end]);
    let held = s.job(needs_success).await.live;
    assert_eq!((held.state, held.broken), (State::Waiting, false));
    s.done(&retried(s, first.id).await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_success]);
}

pub(in super::super) async fn a_retry_releases_no_job(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let waits = s.push(after(first.id, DependencyCondition::End)).await;
    s.finish_as_decided(&first, failed(RetryDirective::After(Span::ZERO))).await;
    s.finish_as_decided(&s.claim_one("q").await, Outcome::Interrupted).await;
    assert_eq!(state(s, waits).await, State::Waiting);
}

pub(in super::super) async fn a_job_waits_for_all_its_dependencies(s: &JobsSubject) {
    let ids = s.push_all(vec![job("q"), job("q"), job("q")]).await;
    let new = ids.iter().fold(job("then"), |job, id| {
        job.after(NewDependencyTarget::Job(*id), DependencyCondition::Success)
    });
    let waits = s.push(new).await;
    for left in [2, 1, 0] {
        s.done(&s.claim_one("q").await).await;
        let live = s.job(waits).await.live;
        assert_eq!(live.waits, left);
        assert_eq!(live.state, if left > 0 { State::Waiting } else { State::Ready });
    }
}

pub(in super::super) async fn a_dependency_that_is_satisfied_already_does_not_wait(
    s: &JobsSubject,
) {
    let done = s.start(job("q")).await;
    s.done(&done).await;
    let dead = s.start(job("q")).await;
    s.fail_for_good(&dead).await;
    let cancelled = s.push(job("q")).await;
    s.apply_to_current(cancelled, &JobEvent::Cancel).await;
    for (id, needs) in [
        (done.id, DependencyCondition::Success),
        (done.id, DependencyCondition::End),
        (dead.id, DependencyCondition::End),
        (cancelled, DependencyCondition::End),
    ] {
        let id = s.push(after(id, needs)).await;
        let live = s.job(id).await.live;
        assert_eq!((live.state, live.waits), (State::Ready, 0), "{needs:?}");
    }
}

pub(in super::super) async fn a_job_that_needs_the_success_of_a_dead_job_is_held(s: &JobsSubject) {
    let dead = s.start(job("q")).await;
    s.fail_for_good(&dead).await;
    let held = s.push(after(dead.id, DependencyCondition::Success)).await;
    assert_eq!(state(s, held).await, State::Waiting);
    s.done(&retried(s, dead.id).await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [held]);
}

pub(in super::super) async fn a_released_job_that_is_due_later_is_scheduled(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let due = s.now().after(MINUTE);
    let id = s.push(after(first.id, DependencyCondition::Success).later(MINUTE)).await;
    assert_eq!(state(s, id).await, State::Waiting);
    s.advance(SECOND);
    s.done(&first).await;
    let live = s.job(id).await.live;
    assert_eq!((live.state, live.due), (State::Scheduled, due));
}

pub(in super::super) async fn a_released_job_that_is_overdue_is_ready(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let id = s.push(after(first.id, DependencyCondition::Success).later(SECOND)).await;
    s.advance(SECOND);
    s.done(&first).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [id]);
}

/// A repeated end does not release a job a second time.
pub(in super::super) async fn a_second_end_releases_no_job_twice(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let other = s.push(job("other")).await;
    let new = after(first.id, DependencyCondition::End)
        .after(NewDependencyTarget::Job(other), DependencyCondition::Success);
    let waits = s.push(new).await;
    s.fail_for_good(&first).await;
    assert_eq!(s.job(waits).await.live.waits, 1);
    s.fail_for_good(&retried(s, first.id).await).await;
    s.done(&retried(s, first.id).await).await;
    let live = s.job(waits).await.live;
    assert_eq!((live.state, live.waits), (State::Waiting, 1), "it still waits for the other");
    s.done(&s.claim_one("other").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [waits]);
}

pub(in super::super) async fn a_release_makes_older_decisions_stale(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let id = s.push(after(first.id, DependencyCondition::Success)).await;
    let waiting = s.job(id).await;
    s.done(&first).await;
    let ready = s.job(id).await;
    assert!(ready.live.revision > waiting.live.revision);
    assert_eq!(s.apply(change(&waiting, &JobEvent::Cancel)).await, Applied::Stale);
    assert_eq!(s.job(id).await, ready);
}

pub(in super::super) async fn a_release_does_not_revive_dead_jobs(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let cancelled = s.push(after(first.id, DependencyCondition::Success)).await;
    let deleted = s.push(after(first.id, DependencyCondition::End)).await;
    s.apply_to_current(cancelled, &JobEvent::Cancel).await;
    s.apply_to_current(deleted, &JobEvent::Delete).await;
    s.done(&first).await;
    assert_eq!(state(s, cancelled).await, State::Cancelled);
    assert_eq!(s.find(deleted).await, None);
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

/// A cancelled job that an operator retries waits again for its remaining dependencies.
pub(in super::super) async fn a_cancelled_dependant_that_is_retried_waits_for_the_rest(
    s: &JobsSubject,
) {
    let first = s.start(job("q")).await;
    let id = s.push(after(first.id, DependencyCondition::Success)).await;
    s.apply_to_current(id, &JobEvent::Cancel).await;
    s.apply_to_current(id, &JobEvent::Retry).await;
    assert_eq!(state(s, id).await, State::Waiting);
    s.done(&first).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [id]);
}

pub(in super::super) async fn chained_dependants_run_in_order(s: &JobsSubject) {
    let next = |n| job("then").after(NewDependencyTarget::Earlier(n), DependencyCondition::Success);
    let ids = s.push_all(vec![job("then"), next(0), next(1), next(2)]).await;
    for id in ids {
        let job = s.claim_one("then").await;
        assert_eq!(job.id, id);
        assert_eq!(s.claim_ids(&["then"], 9).await, [], "one at a time");
        s.done(&job).await;
    }
}
