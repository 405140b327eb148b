use crore_core::job::{DependencyCondition, EndReason, JobRetention};
use crore_core::machine::{JobEdit, JobEvent, Outcome, Report, RetryDirective, decide};
use crore_core::push::{NewDependency, NewDependencyTarget};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{NewJob, Span, State};
use crore_store::Jobs;
use crore_store::jobs::{Applied, Pushed, Renew, Renewed, StoreWrite};

use super::{DONE, ask, job, name, spec, subject};

fn after(on: NewDependencyTarget, needs: DependencyCondition) -> NewJob {
    NewJob { after: vec![NewDependency { on, needs }], ..job("q") }
}

const NEVER: RetryDirective = RetryDirective::Never;

fn failed(again: RetryDirective) -> Outcome {
    Outcome::Failed { error: "a\0b".into(), detail: None, again }
}

#[tokio::test]
async fn the_first_report_wins_and_later_ones_are_stale() {
    let Some(it) = subject().await else { return };
    it.push(vec![job("q")]).await;
    let running = it.claim(ask(&["q"], 1)).await.remove(0);
    let event = |outcome: Outcome| JobEvent::Finished {
        delivery: Some(running.live.delivery),
        report: outcome.into(),
    };
    let change = |outcome| StoreWrite::Job(decide(&running, &event(outcome), 0).expect("decided"));
    let writes = vec![change(DONE), change(failed(NEVER)), change(DONE)];
    let answers = it.store.apply(writes).await.expect("applies").into_inner();
    assert_eq!(answers, [Applied::Yes(vec![]), Applied::Stale, Applied::Stale]);
    assert_eq!(it.get(running.id).await.expect("kept").live.state, State::Done);
    assert_eq!(it.finish(&running, DONE).await, Applied::Stale);
}

#[tokio::test]
async fn an_old_delivery_is_stale_even_if_the_job_runs_again() {
    let Some(it) = subject().await else { return };
    it.push(vec![job("q")]).await;
    let old = it.claim(ask(&["q"], 1)).await.remove(0);
    it.finish(&old, Outcome::Interrupted).await;
    let new = it.claim(ask(&["q"], 1)).await.remove(0);
    assert!(new.live.delivery > old.live.delivery);
    assert_eq!(it.finish(&old, DONE).await, Applied::Stale);
    let renew = Renew { id: old.id, delivery: old.live.delivery, span: None };
    assert_eq!(it.store.renew(vec![renew]).await.expect("renews"), [Renewed::Stale]);
    assert_eq!(it.finish(&new, DONE).await, Applied::Yes(vec![]));
}

#[tokio::test]
async fn follow_ups_are_pushed_with_the_end_and_know_their_parent() {
    let Some(it) = subject().await else { return };
    it.push(vec![job("q")]).await;
    let running = it.claim(ask(&["q"], 1)).await.remove(0);
    let mut held = spec("q", "held");
    held.unique =
        Some(Box::new(Unique { key: "u".into(), hold: UniqueHold::UntilEnd, window: None }));
    let twice = [NewJob::from(held.clone()), held.into()];
    let [first, second] = twice;
    let on_done =
        vec![first, second, after(NewDependencyTarget::Earlier(0), DependencyCondition::End)];
    let report = Report { on_done, on_dead: vec![job("dead")], ..DONE.into() };
    let event = JobEvent::Finished { delivery: Some(running.live.delivery), report };
    let Applied::Yes(pushed) = it.decide(&running, event).await else { panic!("applies") };
    let first = pushed[0].id().expect("new");
    assert_eq!(pushed[1], Pushed::Duplicate(first));
    let third = it.get(pushed[2].id().expect("new")).await.expect("stored");
    assert_eq!(third.spec.parent, Some((running.id, 2)));
    assert_eq!(third.live.state, State::Waiting);
    assert_eq!(it.claim_ids(ask(&["q", "dead"], 9)).await, [first]);
}

#[tokio::test]
async fn dependants_are_released_held_or_broken_by_what_they_need() {
    let Some(it) = subject().await else { return };
    let events = [
        (Some(DONE), [State::Ready, State::Ready], false),
        (Some(failed(NEVER)), [State::Ready, State::Waiting], false),
        (Some(Outcome::Cancel), [State::Ready, State::Waiting], true),
        (None, [State::Waiting, State::Waiting], false),
    ];
    for (outcome, states, broken) in events {
        let first = it.push(vec![job("first")]).await[0];
        let wait = |needs| after(NewDependencyTarget::Job(first), needs);
        let ids =
            it.push(vec![wait(DependencyCondition::End), wait(DependencyCondition::Success)]).await;
        let running = it.claim(ask(&["first"], 1)).await.remove(0);
        if let Some(outcome) = outcome {
            it.finish(&running, outcome).await;
        }
        for (id, state) in ids.iter().zip(states) {
            assert_eq!(it.get(*id).await.expect("stored").live.state, state);
        }
        let second = it.get(ids[1]).await.expect("stored");
        assert_eq!(second.live.broken, broken);
        if broken {
            it.decide(&second, JobEvent::Broken).await;
            let live = it.get(ids[1]).await.expect("stored").live;
            assert_eq!(
                (live.state, live.why),
                (State::Cancelled, Some(EndReason::DependencyBroken))
            );
        }
    }
}

#[tokio::test]
async fn a_dead_job_that_is_retried_and_succeeds_releases_its_dependants() {
    let Some(it) = subject().await else { return };
    let first = it.push(vec![job("first")]).await[0];
    let held = it
        .push(vec![after(NewDependencyTarget::Job(first), DependencyCondition::Success)])
        .await[0];
    let running = it.claim(ask(&["first"], 1)).await.remove(0);
    it.finish(&running, failed(NEVER)).await;
    it.decide(&it.get(first).await.expect("dead"), JobEvent::Retry).await;
    let again = it.claim(ask(&["first"], 1)).await.remove(0);
    assert_eq!(again.live.history[0].error.as_deref(), Some("a\0b"));
    it.finish(&again, DONE).await;
    assert_eq!(it.claim_ids(ask(&["q"], 1)).await, [held]);
}

#[tokio::test]
async fn an_ended_dependant_is_not_broken() {
    let Some(it) = subject().await else { return };
    let first = it.push(vec![job("first")]).await[0];
    let held = it
        .push(vec![after(NewDependencyTarget::Job(first), DependencyCondition::Success)])
        .await[0];
    it.decide(&it.get(held).await.expect("stored"), JobEvent::Cancel).await;
    it.decide(&it.get(first).await.expect("stored"), JobEvent::Delete).await;
    let cancelled = it.get(held).await.expect("kept");
    assert_eq!((cancelled.live.broken, cancelled.live.waits), (false, 0));
    it.decide(&cancelled, JobEvent::Retry).await;
    assert_eq!(it.claim_ids(ask(&["q"], 1)).await, [held]);
}

#[tokio::test]
async fn writes_of_a_batch_see_those_before_them() {
    let Some(it) = subject().await else { return };
    let first = it.push(vec![job("first")]).await[0];
    let held = it
        .push(vec![after(NewDependencyTarget::Job(first), DependencyCondition::Success)])
        .await[0];
    let held = it.get(held).await.expect("stored");
    let running = it.claim(ask(&["first"], 1)).await.remove(0);
    let delivery = Some(running.live.delivery);
    let done = decide(&running, &JobEvent::Finished { delivery, report: DONE.into() }, 0);
    let cancel = decide(&held, &JobEvent::Cancel, 0);
    let writes = [done, cancel].map(|change| StoreWrite::Job(change.expect("decided")));
    let answers = it.store.apply(writes.to_vec()).await.expect("applies").into_inner();
    assert_eq!(answers, [Applied::Yes(vec![]), Applied::Stale]);
    assert_eq!(it.claim_ids(ask(&["q"], 1)).await, [held.id]);
}

#[tokio::test]
async fn an_edit_moves_a_job_to_another_lane_and_time() {
    let Some(it) = subject().await else { return };
    let id = it.push(vec![job("q")]).await[0];
    let before = it.get(id).await.expect("stored");
    let mut moved = spec("elsewhere", "k");
    moved.priority = -7;
    let edit = |due| JobEdit { spec: Some(moved.clone().into()), due };
    let later = Some(crore_core::job::DueTime::After(Span::from_secs(1)));
    it.decide(&before, JobEvent::Edit(edit(later))).await;
    assert_eq!(it.claim(ask(&["q", "elsewhere"], 9)).await, []);
    let now = Some(crore_core::job::DueTime::Now);
    it.decide(&it.get(id).await.expect("stored"), JobEvent::Edit(edit(now))).await;
    let claimed = it.claim(ask(&["elsewhere"], 9)).await;
    assert_eq!(*claimed[0].spec, moved);
    assert_eq!(it.decide(&before, JobEvent::Cancel).await, Applied::Stale);
}

#[tokio::test]
async fn a_running_job_is_asked_to_stop_and_a_job_without_retention_is_removed() {
    let Some(it) = subject().await else { return };
    let mut brief = spec("q", "k");
    brief.retain = JobRetention::Nothing;
    let id = it.push(vec![brief.into()]).await[0];
    let running = it.claim(ask(&["q"], 1)).await.remove(0);
    it.decide(&running, JobEvent::Cancel).await;
    let renew = Renew { id, delivery: running.live.delivery, span: None };
    let renewed = it.store.renew(vec![renew]).await.expect("renews");
    assert!(matches!(renewed[0], Renewed::Until { stop: true, .. }));
    it.finish(&it.get(id).await.expect("running"), DONE).await;
    assert_eq!(it.get(id).await, None);
    assert_eq!(it.apply(StoreWrite::Seal(crore_core::GroupId(id.0))).await, Applied::Stale);
    assert_eq!(name("w"), running.live.worker.expect("a worker"));
}
