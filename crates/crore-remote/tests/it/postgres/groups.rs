use crore_core::group::Group;
use crore_core::job::DependencyCondition;
use crore_core::machine::{JobEvent, Outcome, RetryDirective};
use crore_core::push::{Batch, GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::{GroupId, NewJob, State};
use crore_store::jobs::{Applied, Pushed, StoreWrite};
use crore_store::{Jobs, Registry};

use super::{DONE, PostgresSubject, ask, job, subject};

fn member(group: GroupRef) -> NewJob {
    NewJob { group: Some(group), ..job("q") }
}

fn follow(group: GroupRef, needs: DependencyCondition) -> NewJob {
    NewJob {
        after: vec![NewDependency { on: NewDependencyTarget::Group(group), needs }],
        ..job("then")
    }
}

async fn counts(it: &PostgresSubject, id: GroupId) -> (u64, u64, u64, bool) {
    let Group { size, ran, succeeded, sealed, .. } =
        it.store.group(id).await.expect("reads").expect("it exists");
    (size, ran, succeeded, sealed)
}

async fn push(it: &PostgresSubject, open: bool, jobs: Vec<NewJob>) -> (GroupId, Vec<Pushed>) {
    let batch = Batch { groups: vec![NewGroup { open, maker: None }], jobs };
    let pushes = it.store.push(batch).await.expect("pushes").into_inner();
    (pushes.groups[0], pushes.jobs)
}

#[tokio::test]
async fn follow_ups_start_when_all_have_run_and_when_all_have_succeeded() {
    let Some(it) = subject().await else { return };
    let new = GroupRef::New(0);
    let jobs = vec![
        follow(new, DependencyCondition::Success),
        member(new),
        member(new),
        follow(new, DependencyCondition::End),
    ];
    let (group, answers) = push(&it, false, jobs).await;
    assert_eq!(counts(&it, group).await, (2, 0, 0, true));
    let running = it.claim(ask(&["q", "then"], 9)).await;
    assert_eq!(running.len(), 2);
    it.finish(&running[0], DONE).await;
    assert_eq!(it.claim(ask(&["then"], 9)).await, []);
    let failed = Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
    it.finish(&running[1], failed).await;
    assert_eq!(counts(&it, group).await, (2, 2, 1, true));
    assert_eq!(it.claim_ids(ask(&["then"], 9)).await, [answers[3].id().expect("new")]);
    let dead = it.get(running[1].id).await.expect("kept");
    it.decide(&dead, JobEvent::Delete).await;
    assert_eq!(counts(&it, group).await, (1, 1, 1, true));
    assert_eq!(it.claim_ids(ask(&["then"], 9)).await, [answers[0].id().expect("new")]);
}

#[tokio::test]
async fn an_open_group_grows_until_it_is_sealed() {
    let Some(it) = subject().await else { return };
    let (group, _) =
        push(&it, true, vec![follow(GroupRef::New(0), DependencyCondition::Success)]).await;
    it.push(vec![member(GroupRef::Id(group)); 2]).await;
    for job in it.claim(ask(&["q"], 9)).await {
        it.finish(&job, DONE).await;
    }
    assert_eq!(counts(&it, group).await, (2, 2, 2, false));
    assert_eq!(it.claim(ask(&["then"], 9)).await, []);
    assert_eq!(it.apply(StoreWrite::Seal(group)).await, Applied::Yes(vec![]));
    assert_eq!(it.apply(StoreWrite::Seal(group)).await, Applied::Stale);
    assert_eq!(it.claim(ask(&["then"], 9)).await.len(), 1);
}

#[tokio::test]
async fn an_empty_group_has_ended_and_an_unknown_one_is_missing() {
    let Some(it) = subject().await else { return };
    let (group, answers) =
        push(&it, false, vec![follow(GroupRef::New(0), DependencyCondition::Success)]).await;
    let job = it.get(answers[0].id().expect("new")).await.expect("stored");
    assert_eq!((job.live.state, job.live.waits), (State::Ready, 0));
    assert_eq!(it.push(vec![follow(GroupRef::Id(group), DependencyCondition::End)]).await.len(), 1);
    assert_eq!(it.store.group(GroupId(u64::MAX)).await.expect("reads"), None);
}
