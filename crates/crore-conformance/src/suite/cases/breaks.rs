//! A job whose dependency can no longer succeed is broken.

use crore_core::job::{DependencyCondition, DependencyTarget, EndReason};
use crore_core::machine::{JobEvent, Outcome};
use crore_core::push::NewDependencyTarget;
use crore_core::{JobId, State};
use crore_store::jobs::Pushed;

use super::super::job_builder::{NewJobBuilder, job};
use super::super::subject::{JobsSubject, StoreSubject, expect_ok, ids};
use super::depend::{after, state};

async fn broken(s: &JobsSubject, id: JobId) {
    let live = s.job(id).await.live;
    assert_eq!((live.state, live.broken), (State::Waiting, true), "held until the decision");
}

pub(in super::super) async fn a_cancelled_job_breaks_jobs_that_need_its_success(s: &JobsSubject) {
    for running in [false, true] {
        let first = s.push(job("q")).await;
        let needs_success = s.push(after(first, DependencyCondition::Success)).await;
        let needs_end = s.push(after(first, DependencyCondition::End)).await;
        if running {
            s.finish_as_decided(&s.claim_one("q").await, Outcome::Cancel).await;
        } else {
            s.apply_to_current(first, &JobEvent::Cancel).await;
        }
        broken(s, needs_success).await;
        assert_eq!(s.claim_ids(&["then"], 9).await, [needs_end]);
    }
}

pub(in super::super) async fn a_removed_job_breaks_jobs_that_need_its_success(s: &JobsSubject) {
    let first = s.push(job("q")).await;
    let needs_success = s.push(after(first, DependencyCondition::Success)).await;
    let needs_end = s.push(after(first, DependencyCondition::End)).await;
    s.apply_to_current(first, &JobEvent::Delete).await;
    broken(s, needs_success).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_end]);
}

pub(in super::super) async fn a_dead_job_that_is_removed_breaks_the_jobs_it_held(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let held = s.push(after(first.id, DependencyCondition::Success)).await;
    s.fail_for_good(&first).await;
    s.apply_to_current(first.id, &JobEvent::Delete).await;
    broken(s, held).await;
}

pub(in super::super) async fn a_done_job_that_is_removed_breaks_no_job(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    let other = s.push(job("other")).await;
    let new = after(first.id, DependencyCondition::Success)
        .after(NewDependencyTarget::Job(other), DependencyCondition::Success);
    let waits = s.push(new).await;
    s.done(&first).await;
    s.apply_to_current(first.id, &JobEvent::Delete).await;
    assert!(!s.job(waits).await.live.broken, "the job had succeeded");
    s.done(&s.claim_one("other").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [waits]);
}

pub(in super::super) async fn a_broken_job_is_cancelled_and_breaks_others_in_turn(s: &JobsSubject) {
    let next = |n| job("then").after(NewDependencyTarget::Earlier(n), DependencyCondition::Success);
    let chain = s.push_all(vec![job("q"), next(0), next(1)]).await;
    s.apply_to_current(chain[0], &JobEvent::Cancel).await;
    for id in &chain[1..] {
        broken(s, *id).await;
        s.apply_to_current(*id, &JobEvent::Broken).await;
        let live = s.job(*id).await.live;
        assert_eq!((live.state, live.why), (State::Cancelled, Some(EndReason::DependencyBroken)));
    }
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

pub(in super::super) async fn a_broken_job_is_not_released_by_its_other_dependencies(
    s: &JobsSubject,
) {
    let first = s.push(job("q")).await;
    let other = s.push(job("other")).await;
    let new = after(first, DependencyCondition::Success)
        .after(NewDependencyTarget::Job(other), DependencyCondition::Success);
    let id = s.push(new).await;
    s.apply_to_current(first, &JobEvent::Cancel).await;
    broken(s, id).await;
    s.done(&s.claim_one("other").await).await;
    broken(s, id).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

pub(in super::super) async fn a_push_whose_dependency_cannot_succeed_is_broken(s: &JobsSubject) {
    let cancelled = s.push(job("q")).await;
    s.apply_to_current(cancelled, &JobEvent::Cancel).await;
    let answer = s.try_push(after(cancelled, DependencyCondition::Success)).await;
    assert_eq!(answer, Pushed::Broken(DependencyTarget::Job(cancelled)));
    let deleted = s.push(job("q")).await;
    s.apply_to_current(deleted, &JobEvent::Delete).await;
    let answer = s.try_push(after(deleted, DependencyCondition::Success)).await;
    assert_eq!(answer, Pushed::Broken(DependencyTarget::Job(deleted)));
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

pub(in super::super) async fn a_broken_job_that_is_retried_by_hand_runs(s: &JobsSubject) {
    let first = s.push(job("q")).await;
    let id = s.push(after(first, DependencyCondition::Success)).await;
    s.apply_to_current(first, &JobEvent::Cancel).await;
    s.apply_to_current(id, &JobEvent::Broken).await;
    s.apply_to_current(id, &JobEvent::Retry).await;
    assert_eq!(state(s, id).await, State::Ready, "it waits for nothing any more");
    assert_eq!(s.claim_ids(&["then"], 9).await, [id]);
}

pub(in super::super) async fn broken_jobs_are_listed_until_they_are_decided_upon(s: &StoreSubject) {
    let first = s.push(job("q")).await;
    let waits = s.push_all(vec![after(first, DependencyCondition::Success); 3]).await;
    assert_eq!(expect_ok(s.store.lapsed(9)).await.broken, []);
    s.apply_to_current(first, &JobEvent::Cancel).await;
    let before = s.job(waits[0]).await;
    let mut found = ids(&expect_ok(s.store.lapsed(9)).await.broken);
    found.sort_unstable();
    assert_eq!(found, waits);
    assert_eq!(s.job(waits[0]).await, before, "reading changes nothing");
    assert_eq!(expect_ok(s.store.lapsed(2)).await.broken.len(), 2);
    for id in waits {
        s.apply_to_current(id, &JobEvent::Broken).await;
    }
    assert_eq!(expect_ok(s.store.lapsed(9)).await.broken, []);
}
