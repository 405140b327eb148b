//! A batch is one write, and its parts may refer to each other.

use crore_core::job::{Dependency, Needs, Thing};
use crore_core::push::{AfterRef, GroupRef};
use crore_core::unique::Hold;
use crore_core::{Batch, GroupId, JobId, State};
use crore_store::jobs::Pushed;
use crore_store::jobs::Which;

use super::super::draft::{Draft, grouped, job, jobs};
use super::super::subject::{Few, got};

pub(in super::super) async fn a_large_batch_is_stored_whole_and_in_order(s: &Few) {
    let pushed = s.push_all(jobs("q", 1000)).await;
    assert_eq!(pushed.len(), 1000);
    assert!(pushed.is_sorted_by(|a, b| a < b), "numbered in the order of the batch");
    let found = got(s.store.get(Which::all(&pushed))).await;
    assert!(found.iter().all(Option::is_some), "all of them are stored");
    assert_eq!(s.claim_ids(&["q"], 1000).await, pushed);
}

/// However a claim and a push meet, the claim sees the whole batch or nothing of it.
pub(in super::super) async fn a_batch_is_all_or_nothing(s: &Few) {
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

pub(in super::super) async fn a_job_may_wait_for_an_earlier_one_of_its_batch(s: &Few) {
    let second = job("q").after(AfterRef::Earlier(0), Needs::Success);
    let ids = s.push_all(vec![job("q"), second]).await;
    let waiting = s.job(ids[1]).await;
    assert_eq!(waiting.live.state, State::Waiting);
    let on = Thing::Job(ids[0]);
    assert_eq!(waiting.spec.after, [Dependency { on, needs: Needs::Success }]);
    let first = s.claim_one("q").await;
    s.done(&first).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [ids[1]]);
}

pub(in super::super) async fn a_batch_brings_groups_and_their_members(s: &Few) {
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
    assert_eq!(numbers.len(), 6, "no number names two things");
}

pub(in super::super) async fn two_of_a_batch_with_one_key_are_one_job(s: &Few) {
    let keyed = || job("q").unique("key", Hold::UntilEnd);
    let answers = s.batch(vec![keyed(), job("q"), keyed()]).await.jobs;
    let first = answers[0].id().expect("stored");
    assert_eq!(answers[2], Pushed::Duplicate(first));
    assert!(matches!(answers[1], Pushed::New(_)), "the others of the batch are as they are");
    assert_eq!(s.claim(&["q"], 9).await.len(), 2);
}

pub(in super::super) async fn two_of_a_batch_with_one_client_id_are_one_job(s: &Few) {
    let mine = || job("q").client("native", "mine");
    let answers = s.batch(vec![mine(), mine()]).await.jobs;
    assert_eq!(answers[1], Pushed::Duplicate(answers[0].id().expect("stored")));
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

pub(in super::super) async fn who_waits_for_a_duplicate_waits_for_the_first(s: &Few) {
    let keyed = || job("first").unique("key", Hold::UntilEnd);
    let first = s.push(keyed()).await;
    let waits = job("q").after(AfterRef::Earlier(0), Needs::Success);
    let answers = s.batch(vec![keyed(), waits]).await.jobs;
    assert_eq!(answers[0], Pushed::Duplicate(first));
    let waiting = s.job(answers[1].id().expect("stored")).await;
    assert_eq!(waiting.spec.after[0].on, Thing::Job(first));
    assert_eq!(waiting.live.state, State::Waiting);
    s.done(&s.claim_one("first").await).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [waiting.id]);
}

pub(in super::super) async fn a_reference_to_nothing_breaks_one_job_and_not_the_batch(s: &Few) {
    let nobody = JobId(i64::MAX as u64);
    let no_group = GroupId(nobody.0);
    let answers = s
        .batch(vec![
            job("q"),
            job("q").after(AfterRef::Job(nobody), Needs::Success),
            job("q").after(AfterRef::Job(nobody), Needs::End),
            job("q").after(AfterRef::Group(GroupRef::Id(no_group)), Needs::End),
            job("q").member(GroupRef::Id(no_group)),
            job("q"),
        ])
        .await
        .jobs;
    let broken = |thing| Pushed::Broken(thing);
    assert_eq!(answers[1], broken(Thing::Job(nobody)));
    assert_eq!(answers[2], broken(Thing::Job(nobody)), "whatever is needed of it");
    assert_eq!(answers[3], broken(Thing::Group(no_group)));
    assert_eq!(answers[4], broken(Thing::Group(no_group)));
    let stored = [answers[0].id().expect("stored"), answers[5].id().expect("stored")];
    assert_eq!(s.claim_ids(&["q"], 9).await, stored);
}

pub(in super::super) async fn who_waits_for_a_broken_one_is_broken_by_it(s: &Few) {
    let nobody = JobId(i64::MAX as u64);
    let after = |n| job("q").after(AfterRef::Earlier(n), Needs::End);
    let root = job("q").after(AfterRef::Job(nobody), Needs::End);
    let answers = s.batch(vec![job("q"), root, after(1), after(2), after(0)]).await.jobs;
    let broken = [Pushed::Broken(Thing::Job(nobody)), Pushed::BrokenBy(1), Pushed::BrokenBy(2)];
    assert_eq!(answers[1..4], broken);
    let good: Vec<_> = [answers[0], answers[4]].iter().filter_map(|p| p.id()).collect();
    assert_eq!(good.len(), 2, "{answers:?}");
    assert_eq!(s.claim_ids(&["q"], 9).await, [good[0]], "nothing of the broken ones is stored");
}

/// A job that is not stored takes nothing: no key, no client id, no place in a group.
pub(in super::super) async fn a_job_that_is_not_stored_leaves_no_trace(s: &Few) {
    let nobody = AfterRef::Job(JobId(i64::MAX as u64));
    let keyed = || job("q").unique("key", Hold::UntilEnd).client("native", "mine");
    let member = keyed().member(GroupRef::New(0));
    let broken = member.clone().after(nobody, Needs::End);
    let pushes = s.batch(grouped(vec![broken, member.clone(), member])).await;
    assert!(matches!(pushes.jobs[0], Pushed::Broken(_)), "{pushes:?}");
    assert!(matches!(pushes.jobs[1], Pushed::New(_)), "{pushes:?}");
    assert!(matches!(pushes.jobs[2], Pushed::Duplicate(_)), "{pushes:?}");
    let group = got(s.store.group(pushes.groups[0])).await.expect("the group is there");
    assert_eq!(group.size, 1, "only what is stored is a member");
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

pub(in super::super) async fn a_batch_of_groups_alone_is_a_batch(s: &Few) {
    let pushes = s.batch(Batch { jobs: Vec::new(), ..grouped(Vec::new()) }).await;
    let group = got(s.store.group(pushes.groups[0])).await.expect("the group is there");
    assert_eq!((group.size, group.sealed), (0, true));
}
