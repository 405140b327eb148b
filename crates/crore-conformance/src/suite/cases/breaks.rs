//! A job whose dependency can no longer succeed is broken, and told so.

use crore_core::job::{Needs, Thing, Why};
use crore_core::machine::{Event, Outcome};
use crore_core::push::AfterRef;
use crore_core::{JobId, State};
use crore_store::jobs::Pushed;

use super::super::draft::{Draft, job};
use super::super::subject::{Few, Whole, got, ids};
use super::depend::{after, state};

async fn broken(s: &Few, id: JobId) {
    let live = s.job(id).await.live;
    assert_eq!((live.state, live.broken), (State::Waiting, true), "held until it is decided upon");
}

pub(in super::super) async fn a_cancelled_job_breaks_who_needs_its_success(s: &Few) {
    for running in [false, true] {
        let first = s.push(job("q")).await;
        let needs_success = s.push(after(first, Needs::Success)).await;
        let needs_end = s.push(after(first, Needs::End)).await;
        if running {
            s.ends(&s.claim_one("q").await, Outcome::Cancel).await;
        } else {
            s.happens_to(first, &Event::Cancel).await;
        }
        broken(s, needs_success).await;
        assert_eq!(s.claim_ids(&["then"], 9).await, [needs_end]);
    }
}

pub(in super::super) async fn a_removed_job_breaks_who_needs_its_success(s: &Few) {
    let first = s.push(job("q")).await;
    let needs_success = s.push(after(first, Needs::Success)).await;
    let needs_end = s.push(after(first, Needs::End)).await;
    s.happens_to(first, &Event::Delete).await;
    broken(s, needs_success).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [needs_end]);
}

pub(in super::super) async fn a_dead_job_that_is_removed_breaks_whom_it_held(s: &Few) {
    let first = s.start(job("q")).await;
    let held = s.push(after(first.id, Needs::Success)).await;
    s.dies(&first).await;
    s.happens_to(first.id, &Event::Delete).await;
    broken(s, held).await;
}

pub(in super::super) async fn a_done_job_that_is_removed_breaks_nobody(s: &Few) {
    let first = s.start(job("q")).await;
    let other = s.push(job("other")).await;
    let new = after(first.id, Needs::Success).after(AfterRef::Job(other), Needs::Success);
    let waits = s.push(new).await;
    s.done(&first).await;
    s.happens_to(first.id, &Event::Delete).await;
    assert!(!s.job(waits).await.live.broken, "it had succeeded");
    s.done(&s.claim_one("other").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [waits]);
}

pub(in super::super) async fn a_broken_job_is_cancelled_and_breaks_others_in_turn(s: &Few) {
    let next = |n| job("then").after(AfterRef::Earlier(n), Needs::Success);
    let chain = s.push_all(vec![job("q"), next(0), next(1)]).await;
    s.happens_to(chain[0], &Event::Cancel).await;
    for id in &chain[1..] {
        broken(s, *id).await;
        s.happens_to(*id, &Event::Broken).await;
        let live = s.job(*id).await.live;
        assert_eq!((live.state, live.why), (State::Cancelled, Some(Why::DependencyBroken)));
    }
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

pub(in super::super) async fn a_broken_job_is_not_released_by_the_rest(s: &Few) {
    let first = s.push(job("q")).await;
    let other = s.push(job("other")).await;
    let new = after(first, Needs::Success).after(AfterRef::Job(other), Needs::Success);
    let id = s.push(new).await;
    s.happens_to(first, &Event::Cancel).await;
    broken(s, id).await;
    s.done(&s.claim_one("other").await).await;
    broken(s, id).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

pub(in super::super) async fn a_push_that_can_no_longer_succeed_is_broken(s: &Few) {
    let cancelled = s.push(job("q")).await;
    s.happens_to(cancelled, &Event::Cancel).await;
    let answer = s.offer(after(cancelled, Needs::Success)).await;
    assert_eq!(answer, Pushed::Broken(Thing::Job(cancelled)));
    let deleted = s.push(job("q")).await;
    s.happens_to(deleted, &Event::Delete).await;
    let answer = s.offer(after(deleted, Needs::Success)).await;
    assert_eq!(answer, Pushed::Broken(Thing::Job(deleted)));
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
}

pub(in super::super) async fn a_broken_job_that_is_retried_by_hand_runs(s: &Few) {
    let first = s.push(job("q")).await;
    let id = s.push(after(first, Needs::Success)).await;
    s.happens_to(first, &Event::Cancel).await;
    s.happens_to(id, &Event::Broken).await;
    s.happens_to(id, &Event::Retry).await;
    assert_eq!(state(s, id).await, State::Ready, "nothing is left that it could wait for");
    assert_eq!(s.claim_ids(&["then"], 9).await, [id]);
}

pub(in super::super) async fn broken_jobs_are_listed_until_they_are_decided_upon(s: &Whole) {
    let first = s.push(job("q")).await;
    let waits = s.push_all(vec![after(first, Needs::Success); 3]).await;
    assert_eq!(got(s.store.lapsed(9)).await.broken, []);
    s.happens_to(first, &Event::Cancel).await;
    let before = s.job(waits[0]).await;
    let mut found = ids(&got(s.store.lapsed(9)).await.broken);
    found.sort_unstable();
    assert_eq!(found, waits);
    assert_eq!(s.job(waits[0]).await, before, "looking changes nothing");
    assert_eq!(got(s.store.lapsed(2)).await.broken.len(), 2);
    for id in waits {
        s.happens_to(id, &Event::Broken).await;
    }
    assert_eq!(got(s.store.lapsed(9)).await.broken, []);
}
