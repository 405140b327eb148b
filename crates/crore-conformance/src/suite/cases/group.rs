//! Groups count their members, and release the jobs that wait for all of them.

use crore_core::group::{Group, SEALED_GROUP_LABEL};
use crore_core::job::{ClientId, DependencyCondition, DependencyTarget};
use crore_core::machine::{JobEvent, Outcome, Report, RetryDirective};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::unique::UniqueHold;
use crore_core::{GroupId, JobId, NewJob, Span};
use crore_store::jobs::{Applied, JobSelector, Pushed, StoreWrite};

use super::super::job_builder::{NewJobBuilder, grouped, job, name, open_group};
use super::super::subject::{JobsSubject, expect_ok, failed};
use super::depend::retried;

const NEW: GroupRef = GroupRef::New(0);

fn member() -> NewJob {
    job("q").member(NEW)
}

fn follow_up(group: GroupRef, needs: DependencyCondition) -> NewJob {
    job("then").after(NewDependencyTarget::Group(group), needs)
}

async fn group(s: &JobsSubject, id: GroupId) -> Group {
    expect_ok(s.store.group(id)).await.expect("the group is there")
}

/// Size, run, succeeded.
async fn counts(s: &JobsSubject, id: GroupId) -> (u64, u64, u64) {
    let group = group(s, id).await;
    (group.size, group.ran, group.succeeded)
}

/// A sealed group of two, with a follow-up for its end and one for its success.
async fn sealed_pair(s: &JobsSubject) -> (GroupId, JobId, JobId) {
    let follow =
        [follow_up(NEW, DependencyCondition::End), follow_up(NEW, DependencyCondition::Success)];
    let pushes = s.batch(grouped([vec![member(), member()], follow.to_vec()].concat())).await;
    let id = |n: usize| pushes.jobs[n].id().expect("stored");
    (pushes.groups[0], id(2), id(3))
}

pub(in super::super) async fn a_group_counts_its_members(s: &JobsSubject) {
    let (id, _, _) = sealed_pair(s).await;
    assert_eq!(counts(s, id).await, (2, 0, 0), "its dependants are not members");
    assert!(group(s, id).await.sealed);
    let before = group(s, id).await.revision;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(counts(s, id).await, (2, 1, 1));
    assert!(group(s, id).await.revision > before);
    s.fail_for_good(&s.claim_one("q").await).await;
    assert_eq!(counts(s, id).await, (2, 2, 1));
    assert_eq!(expect_ok(s.store.group(GroupId(id.0 + 1000))).await, None);
}

pub(in super::super) async fn a_group_releases_when_all_have_succeeded(s: &JobsSubject) {
    let (_, end, success) = sealed_pair(s).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [], "one is left");
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [end, success]);
}

pub(in super::super) async fn a_job_that_needs_all_to_succeed_breaks_when_a_dead_member_is_pruned(
    s: &JobsSubject,
) {
    let (id, end, success) = sealed_pair(s).await;
    let dead = s.claim_one("q").await;
    s.fail_for_good(&dead).await;
    s.apply_to_current(dead.id, &JobEvent::Prune).await;
    assert!(s.job(success).await.live.broken, "it is running with a stop request");
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [end]);
    assert_eq!(counts(s, id).await, (2, 2, 1), "a lost member still counts");
    assert!(group(s, id).await.lost);
    let late = s.try_push(follow_up(GroupRef::Id(id), DependencyCondition::Success)).await;
    assert_eq!(late, Pushed::Broken(DependencyTarget::Group(id)));
    assert!(s.try_push(follow_up(GroupRef::Id(id), DependencyCondition::End)).await.id().is_some());
}

pub(in super::super) async fn a_dead_member_has_run_and_not_succeeded(s: &JobsSubject) {
    let (id, end, success) = sealed_pair(s).await;
    let dead = s.claim_one("q").await;
    s.fail_for_good(&dead).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [end]);
    s.fail_for_good(&retried(s, dead.id).await).await;
    assert_eq!(counts(s, id).await, (2, 2, 1), "it is counted as run once");
    s.done(&retried(s, dead.id).await).await;
    assert_eq!(counts(s, id).await, (2, 2, 2));
    assert_eq!(s.claim_ids(&["then"], 9).await, [success]);
}

pub(in super::super) async fn a_member_that_is_retried_has_not_run(s: &JobsSubject) {
    let (id, _, _) = sealed_pair(s).await;
    s.finish_as_decided(&s.claim_one("q").await, failed(RetryDirective::After(Span::ZERO))).await;
    s.finish_as_decided(&s.claim_one("q").await, Outcome::Interrupted).await;
    assert_eq!(counts(s, id).await, (2, 0, 0));
}

pub(in super::super) async fn a_removed_member_is_not_counted(s: &JobsSubject) {
    let (id, end, success) = sealed_pair(s).await;
    let done = s.claim_one("q").await;
    s.done(&done).await;
    let other = s.claim_one("q").await;
    s.finish_as_decided(&other, Outcome::Interrupted).await;
    s.apply_to_current(other.id, &JobEvent::Delete).await;
    assert_eq!(counts(s, id).await, (1, 1, 1));
    assert_eq!(s.claim_ids(&["then"], 9).await, [end, success], "the last one left succeeded");
    s.apply_to_current(done.id, &JobEvent::Delete).await;
    assert_eq!(counts(s, id).await, (1, 1, 1), "successes stay counted");
}

pub(in super::super) async fn a_cancelled_member_prevents_the_success_of_its_group(
    s: &JobsSubject,
) {
    let (id, end, success) = sealed_pair(s).await;
    let cancelled = s.claim_one("q").await;
    s.finish_as_decided(&cancelled, Outcome::Cancel).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(counts(s, id).await, (2, 2, 1));
    assert_eq!(s.claim_ids(&["then"], 9).await, [end]);
    s.apply_to_current(cancelled.id, &JobEvent::Delete).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [success], "until it is removed");
}

pub(in super::super) async fn an_open_group_waits_for_its_seal(s: &JobsSubject) {
    let pushes =
        s.batch(open_group(vec![member(), follow_up(NEW, DependencyCondition::End)])).await;
    let id = pushes.groups[0];
    s.done(&s.claim_one("q").await).await;
    assert!(!group(s, id).await.sealed);
    assert_eq!(s.claim_ids(&["then"], 9).await, [], "it may still grow");
    s.push(job("q").member(GroupRef::Id(id))).await;
    assert_eq!(counts(s, id).await, (2, 1, 1));
    assert_eq!(s.write(StoreWrite::Seal(id)).await, Applied::Yes(Vec::new()));
    assert!(group(s, id).await.sealed);
    assert_eq!(s.claim_ids(&["then"], 9).await, [], "one member has not run");
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim(&["then"], 9).await.len(), 1);
}

pub(in super::super) async fn a_seal_releases_when_all_have_run_before(s: &JobsSubject) {
    let pushes =
        s.batch(open_group(vec![member(), follow_up(NEW, DependencyCondition::Success)])).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
    assert_eq!(s.write(StoreWrite::Seal(pushes.groups[0])).await, Applied::Yes(Vec::new()));
    assert_eq!(s.claim(&["then"], 9).await.len(), 1);
}

pub(in super::super) async fn a_seal_is_set_once(s: &JobsSubject) {
    let id = s.batch(open_group(vec![member()])).await.groups[0];
    let unknown = GroupId(id.0 + 1000);
    let answers = s.write_all([id, id, unknown].map(StoreWrite::Seal).to_vec()).await;
    assert_eq!(answers, [Applied::Yes(Vec::new()), Applied::Stale, Applied::Stale]);
    let sealed = s.batch(grouped(vec![member()])).await.groups[0];
    assert_eq!(s.write(StoreWrite::Seal(sealed)).await, Applied::Stale, "it was created sealed");
}

pub(in super::super) async fn an_empty_group_has_ended_once_it_is_sealed(s: &JobsSubject) {
    let pushes = s.batch(grouped(vec![follow_up(NEW, DependencyCondition::Success)])).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [pushes.jobs[0].id().expect("stored")]);
    let pushes = s.batch(open_group(vec![follow_up(NEW, DependencyCondition::End)])).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
    s.write(StoreWrite::Seal(pushes.groups[0])).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [pushes.jobs[0].id().expect("stored")]);
}

pub(in super::super) async fn a_job_that_waits_for_a_group_may_precede_its_members(
    s: &JobsSubject,
) {
    let pushes =
        s.batch(grouped(vec![follow_up(NEW, DependencyCondition::Success), member()])).await;
    let waits = pushes.jobs[0].id().expect("stored");
    assert_eq!(s.claim_ids(&["then"], 9).await, [], "the group is sealed with all its members");
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [waits]);
}

pub(in super::super) async fn a_dependency_on_an_ended_group_does_not_wait(s: &JobsSubject) {
    let (id, _, _) = sealed_pair(s).await;
    s.done(&s.claim_one("q").await).await;
    s.fail_for_good(&s.claim_one("q").await).await;
    s.claim(&["then"], 9).await;
    let late = s.push(follow_up(GroupRef::Id(id), DependencyCondition::End)).await;
    s.push(follow_up(GroupRef::Id(id), DependencyCondition::Success)).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [late]);
}

/// A member that runs again after the group has ended releases no job a second time.
pub(in super::super) async fn a_group_releases_no_job_twice(s: &JobsSubject) {
    let (id, _, _) = sealed_pair(s).await;
    let other = s.push(job("other")).await;
    let new = follow_up(GroupRef::Id(id), DependencyCondition::End)
        .after(NewDependencyTarget::Job(other), DependencyCondition::Success);
    let waits = s.push(new).await;
    let dead = s.claim_one("q").await;
    s.fail_for_good(&dead).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.job(waits).await.live.waits, 1);
    s.done(&retried(s, dead.id).await).await;
    assert_eq!(s.job(waits).await.live.waits, 1, "the group released it before");
}

pub(in super::super) async fn a_follow_up_may_join_a_group(s: &JobsSubject) {
    let id = s.batch(open_group(vec![member()])).await.groups[0];
    let first = s.claim_one("q").await;
    let report = Report {
        on_done: vec![job("q").member(GroupRef::Id(id))],
        ..Outcome::Done { result: None }.into()
    };
    let event = JobEvent::Finished { delivery: Some(first.live.delivery), report };
    s.apply_as_decided(&first, &event).await;
    assert_eq!(counts(s, id).await, (2, 1, 1));
    assert_eq!(s.claim_one("q").await.spec.group, Some(id));
}

/// A member that ends and adds another in the same write does not end its group.
pub(in super::super) async fn a_follow_up_that_joins_its_parents_group_holds_it(s: &JobsSubject) {
    for dies in [false, true] {
        let pushes =
            s.batch(grouped(vec![member(), follow_up(NEW, DependencyCondition::End)])).await;
        let (id, end) = (pushes.groups[0], pushes.jobs[1].id().expect("stored"));
        let first = s.claim_one("q").await;
        let next = vec![job("q").member(GroupRef::Id(id))];
        let outcome =
            if dies { failed(RetryDirective::Never) } else { Outcome::Done { result: None } };
        let report = Report { on_done: next.clone(), on_dead: next, ..outcome.into() };
        let event = JobEvent::Finished { delivery: Some(first.live.delivery), report };
        s.apply_as_decided(&first, &event).await;
        assert_eq!(s.claim_ids(&["then"], 9).await, [], "the follow-up has not run");
        s.done(&s.claim_one("q").await).await;
        assert_eq!(s.claim_ids(&["then"], 9).await, [end]);
    }
}

pub(in super::super) async fn a_sealed_group_refuses_pushed_members(s: &JobsSubject) {
    let created_sealed = s.batch(grouped(vec![member()])).await.groups[0];
    let sealed_later = s.batch(open_group(vec![member()])).await.groups[0];
    s.write(StoreWrite::Seal(sealed_later)).await;
    for id in [created_sealed, sealed_later] {
        let before = group(s, id).await;
        let late = || job("late").client("native", "late").member(GroupRef::Id(id));
        let after = job("late").after(NewDependencyTarget::Earlier(0), DependencyCondition::End);
        let answers = s.batch(vec![late(), after, job("other")]).await.jobs;
        assert_eq!(answers[..2], [Pushed::Sealed(id), Pushed::BrokenBy(0)]);
        assert_eq!(group(s, id).await, before, "nothing of it is stored");
        assert_eq!(s.claim_ids(&["late", "other"], 9).await, [answers[2].id().expect("stored")]);
    }
    let client = JobSelector::Client(ClientId { door: name("native"), id: "late".into() });
    assert_eq!(expect_ok(s.store.get(vec![client])).await, [None]);
}

/// The result of a duplicate does not depend on the group, so a push can be repeated after the group was sealed.
pub(in super::super) async fn a_duplicate_of_a_member_of_a_sealed_group_is_a_duplicate(
    s: &JobsSubject,
) {
    let id = s.batch(open_group(Vec::new())).await.groups[0];
    let keyed = || job("q").unique("key", UniqueHold::UntilEnd).member(GroupRef::Id(id));
    let first = s.push(keyed()).await;
    s.write(StoreWrite::Seal(id)).await;
    assert_eq!(s.try_push(keyed()).await, Pushed::Duplicate(first));
}

/// No caller can correct the follow-up of another job: it is stored without the sealed group.
pub(in super::super) async fn a_follow_up_of_another_job_is_stored_without_the_sealed_group(
    s: &JobsSubject,
) {
    let (sealed, _, _) = sealed_pair(s).await;
    let other = s.batch(open_group(vec![job("first").member(NEW)])).await.groups[0];
    s.push(job("first")).await;
    for parent in [Some(other), None] {
        let first = s.claim_one("first").await;
        assert_eq!(first.spec.group, parent);
        let report = Report {
            on_done: vec![job("second").member(GroupRef::Id(sealed))],
            ..Outcome::Done { result: None }.into()
        };
        let event = JobEvent::Finished { delivery: Some(first.live.delivery), report };
        s.apply_as_decided(&first, &event).await;
        let second = s.claim_one("second").await;
        assert_eq!(second.spec.group, None);
        assert_eq!(second.spec.labels.get(SEALED_GROUP_LABEL), Some(&sealed.to_string()));
    }
    assert_eq!(counts(s, sealed).await, (2, 0, 0));
}
