//! A batch is one write, and its parts may refer to each other.

use crore_core::job::{Dependency, DependencyCondition, DependencyTarget};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::unique::UniqueHold;
use crore_core::{Batch, GroupId, JobId, State};
use crore_store::jobs::JobSelector;
use crore_store::jobs::Pushed;

use super::super::job_builder::{NewJobBuilder, grouped, job, jobs};
use super::super::subject::{JobsSubject, expect_ok};

pub(in super::super) async fn a_large_batch_is_stored_whole_and_in_order(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 1000)).await;
    assert_eq!(pushed.len(), 1000);
    assert!(pushed.is_sorted_by(|a, b| a < b), "numbered in the order of the batch");
    let found = expect_ok(s.store.get(JobSelector::all(&pushed))).await;
    assert!(found.iter().all(Option::is_some), "all of them are stored");
    assert_eq!(s.claim_ids(&["q"], 1000).await, pushed);
}

/// However a claim and a push interleave, the claim sees the whole batch or nothing of it.
pub(in super::super) async fn a_batch_is_all_or_nothing(s: &JobsSubject) {
    const SIZE: usize = 50;
    for round in 0..10 {
        let queue = format!("q{round}");
        let look = async {
            let mut seen = 0;
            for _ in 0..20 {
                seen = s.claim(&[&queue], 2 * SIZE).await.len();
                if seen > 0 {
                    break;
                }
                tokio::task::yield_now().await;
            }
            seen
        };
        let (seen, _) = tokio::join!(look, s.batch(jobs(&queue, SIZE)));
        assert!(seen == 0 || seen == SIZE, "a claim saw {seen} of {SIZE}");
    }
}

pub(in super::super) async fn a_job_may_wait_for_an_earlier_one_of_its_batch(s: &JobsSubject) {
    let second = job("q").after(NewDependencyTarget::Earlier(0), DependencyCondition::Success);
    let ids = s.push_all(vec![job("q"), second]).await;
    let waiting = s.job(ids[1]).await;
    assert_eq!(waiting.live.state, State::Waiting);
    let on = DependencyTarget::Job(ids[0]);
    assert_eq!(waiting.spec.after, [Dependency { on, needs: DependencyCondition::Success }]);
    let first = s.claim_one("q").await;
    s.done(&first).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [ids[1]]);
}

pub(in super::super) async fn a_batch_creates_groups_and_their_members(s: &JobsSubject) {
    let mut batch = grouped(vec![
        job("q").member(GroupRef::New(0)),
        job("q").member(GroupRef::New(1)),
        job("q").member(GroupRef::New(0)),
        job("q"),
    ]);
    batch.groups.push(batch.groups[0]);
    let pushes = s.batch(batch).await;
    let groups = pushes.groups;
    assert_eq!(groups.len(), 2);
    let members = [Some(groups[0]), Some(groups[1]), Some(groups[0]), None];
    for (answer, group) in pushes.jobs.iter().zip(members) {
        assert_eq!(s.job(answer.id().expect("stored")).await.spec.group, group);
    }
    let mut numbers: Vec<_> = pushes.jobs.iter().filter_map(|p| p.id()).map(|id| id.0).collect();
    numbers.extend(groups.iter().map(|group| group.0));
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 6, "numbers are unique");
}

pub(in super::super) async fn two_of_a_batch_with_one_key_are_one_job(s: &JobsSubject) {
    let keyed = || job("q").unique("key", UniqueHold::UntilEnd);
    let answers = s.batch(vec![keyed(), job("q"), keyed()]).await.jobs;
    let first = answers[0].id().expect("stored");
    assert_eq!(answers[2], Pushed::Duplicate(first));
    assert!(matches!(answers[1], Pushed::New(_)), "the others of the batch are unaffected");
    assert_eq!(s.claim(&["q"], 9).await.len(), 2);
}

pub(in super::super) async fn two_of_a_batch_with_one_client_id_are_one_job(s: &JobsSubject) {
    let mine = || job("q").client("native", "mine");
    let answers = s.batch(vec![mine(), mine()]).await.jobs;
    assert_eq!(answers[1], Pushed::Duplicate(answers[0].id().expect("stored")));
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

pub(in super::super) async fn a_dependency_on_a_duplicate_waits_for_the_first(s: &JobsSubject) {
    let keyed = || job("first").unique("key", UniqueHold::UntilEnd);
    let first = s.push(keyed()).await;
    let waits = job("q").after(NewDependencyTarget::Earlier(0), DependencyCondition::Success);
    let answers = s.batch(vec![keyed(), waits]).await.jobs;
    assert_eq!(answers[0], Pushed::Duplicate(first));
    let waiting = s.job(answers[1].id().expect("stored")).await;
    assert_eq!(waiting.spec.after[0].on, DependencyTarget::Job(first));
    assert_eq!(waiting.live.state, State::Waiting);
    s.done(&s.claim_one("first").await).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [waiting.id]);
}

pub(in super::super) async fn a_reference_to_nothing_breaks_one_job_and_not_the_batch(
    s: &JobsSubject,
) {
    let nobody = JobId(i64::MAX as u64);
    let no_group = GroupId(nobody.0);
    let answers = s
        .batch(vec![
            job("q"),
            job("q").after(NewDependencyTarget::Job(nobody), DependencyCondition::Success),
            job("q").after(NewDependencyTarget::Job(nobody), DependencyCondition::End),
            job("q").after(
                NewDependencyTarget::Group(GroupRef::Id(no_group)),
                DependencyCondition::End,
            ),
            job("q").member(GroupRef::Id(no_group)),
            job("q"),
        ])
        .await
        .jobs;
    let broken = |target| Pushed::Broken(target);
    assert_eq!(answers[1], broken(DependencyTarget::Job(nobody)));
    assert_eq!(answers[2], broken(DependencyTarget::Job(nobody)), "for any condition");
    assert_eq!(answers[3], broken(DependencyTarget::Group(no_group)));
    assert_eq!(answers[4], broken(DependencyTarget::Group(no_group)));
    let stored = [answers[0].id().expect("stored"), answers[5].id().expect("stored")];
    assert_eq!(s.claim_ids(&["q"], 9).await, stored);
}

pub(in super::super) async fn a_job_that_depends_on_a_broken_one_is_broken(s: &JobsSubject) {
    let nobody = JobId(i64::MAX as u64);
    let after = |n| job("q").after(NewDependencyTarget::Earlier(n), DependencyCondition::End);
    let root = job("q").after(NewDependencyTarget::Job(nobody), DependencyCondition::End);
    let answers = s.batch(vec![job("q"), root, after(1), after(2), after(0)]).await.jobs;
    let broken =
        [Pushed::Broken(DependencyTarget::Job(nobody)), Pushed::BrokenBy(1), Pushed::BrokenBy(2)];
    assert_eq!(answers[1..4], broken);
    let good: Vec<_> = [answers[0], answers[4]].iter().filter_map(|p| p.id()).collect();
    assert_eq!(good.len(), 2, "{answers:?}");
    assert_eq!(s.claim_ids(&["q"], 9).await, [good[0]], "nothing of the broken ones is stored");
}

/// A job that is not stored takes no key, no client id and no place in a group.
pub(in super::super) async fn a_job_that_is_not_stored_leaves_no_trace(s: &JobsSubject) {
    let nobody = NewDependencyTarget::Job(JobId(i64::MAX as u64));
    let keyed = || job("q").unique("key", UniqueHold::UntilEnd).client("native", "mine");
    let member = keyed().member(GroupRef::New(0));
    let broken = member.clone().after(nobody, DependencyCondition::End);
    let pushes = s.batch(grouped(vec![broken, member.clone(), member])).await;
    assert!(matches!(pushes.jobs[0], Pushed::Broken(_)), "{pushes:?}");
    assert!(matches!(pushes.jobs[1], Pushed::New(_)), "{pushes:?}");
    assert!(matches!(pushes.jobs[2], Pushed::Duplicate(_)), "{pushes:?}");
    let group = expect_ok(s.store.group(pushes.groups[0])).await.expect("the group is there");
    assert_eq!(group.size, 1, "only stored jobs are members");
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

pub(in super::super) async fn a_batch_may_have_groups_only(s: &JobsSubject) {
    let pushes = s.batch(Batch { jobs: Vec::new(), ..grouped(Vec::new()) }).await;
    let group = expect_ok(s.store.group(pushes.groups[0])).await.expect("the group is there");
    assert_eq!((group.size, group.sealed), (0, true));
}
