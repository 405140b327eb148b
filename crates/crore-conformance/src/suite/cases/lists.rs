//! Lists are ordered and paged, and counts agree with them.

use std::collections::BTreeMap;

use crore_core::job::DependencyCondition;
use crore_core::machine::{JobEdit, JobEvent, Outcome};
use crore_core::push::NewDependencyTarget;
use crore_core::{JobId, Span, State};
use crore_store::jobs::JobSelector;
use crore_store::views::{JobCount, ListQuery};

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, jobs, name};
use super::super::subject::{StoreSubject, expect_ok, ids};

fn query(state: State, n: usize) -> ListQuery {
    ListQuery { state, queue: None, kind: None, key: None, after: None, n }
}

/// A page of at most the requested size, and the query for the next one.
async fn page(s: &StoreSubject, query: ListQuery) -> (Vec<JobId>, Option<ListQuery>) {
    let page = expect_ok(s.store.list(query.clone())).await;
    assert!(page.jobs.len() <= query.n, "no page is larger than asked for");
    assert!(page.jobs.iter().all(|job| job.live.state == query.state), "{query:?}");
    (ids(&page.jobs), page.next.map(|next| ListQuery { after: Some(next), ..query }))
}

/// All results of a query, page by page.
async fn listed(s: &StoreSubject, query: ListQuery) -> Vec<JobId> {
    let (mut found, mut next) = (Vec::new(), Some(query));
    for _ in 0..100 {
        let Some(query) = next else { return found };
        let (ids, rest) = page(s, query).await;
        found.extend(ids);
        next = rest;
    }
    panic!("the list has no end");
}

/// Checks a list with every page size.
async fn lists_as(s: &StoreSubject, state: State, expected: &[JobId]) {
    for n in [1, 2, 3, 100] {
        assert_eq!(listed(s, query(state, n)).await, expected, "{state:?} in pages of {n}");
    }
}

pub(in super::super) async fn ready_jobs_are_listed_as_they_will_be_claimed(s: &StoreSubject) {
    let new = [("a", 2), ("b", 1), ("a", 1), ("b", i32::MIN), ("a", i32::MAX)];
    let pushed = s.push_all(new.map(|(q, p)| job(q).priority(p)).to_vec()).await;
    s.advance(SECOND);
    let late = s.push(job("a").priority(1)).await;
    let order = [pushed[3], pushed[1], pushed[2], late, pushed[0], pushed[4]];
    lists_as(s, State::Ready, &order).await;
    assert_eq!(s.claim_ids(&["a", "b"], 9).await, order);
    lists_as(s, State::Ready, &[]).await;
}

pub(in super::super) async fn scheduled_jobs_are_listed_by_when_they_are_due(s: &StoreSubject) {
    let new = [3, 1, 2, 1].map(|n| job("q").later(Span::from_secs(n)).priority(-(n as i32)));
    let pushed = s.push_all(new.to_vec()).await;
    lists_as(s, State::Scheduled, &[pushed[1], pushed[3], pushed[2], pushed[0]]).await;
}

pub(in super::super) async fn waiting_and_running_jobs_are_listed_by_id(s: &StoreSubject) {
    let mut new = vec![job("q").priority(2), job("r").priority(1), job("q")];
    for n in [2, 1, 3] {
        new.push(
            job("q").priority(-n).after(NewDependencyTarget::Earlier(0), DependencyCondition::End),
        );
    }
    let pushed = s.push_all(new).await;
    lists_as(s, State::Waiting, &pushed[3..]).await;
    for _ in 0..3 {
        assert_eq!(s.claim(&["q", "r"], 1).await.len(), 1);
        s.advance(SECOND);
    }
    lists_as(s, State::Running, &pushed[..3]).await;
}

pub(in super::super) async fn ended_jobs_are_listed_newest_first(s: &StoreSubject) {
    let pushed = s.push_all(jobs("q", 9)).await;
    let running = s.claim(&["q"], 9).await;
    for n in [1, 0, 2] {
        s.done(&running[n]).await;
        s.fail_for_good(&running[n + 3]).await;
        s.finish_as_decided(&running[n + 6], Outcome::Cancel).await;
        s.advance(SECOND);
    }
    for (state, first) in [(State::Done, 0), (State::Dead, 3), (State::Cancelled, 6)] {
        let order = [2, 0, 1].map(|n: usize| pushed[first + n]);
        lists_as(s, state, &order).await;
    }
}

pub(in super::super) async fn jobs_that_ended_together_are_all_listed(s: &StoreSubject) {
    let mut pushed = s.push_all(jobs("q", 7)).await;
    for job in s.claim(&["q"], 7).await {
        s.done(&job).await;
    }
    for n in [1, 2, 3] {
        let mut found = listed(s, query(State::Done, n)).await;
        found.sort_unstable();
        pushed.sort_unstable();
        assert_eq!(found, pushed, "pages of {n}: no job is repeated or skipped");
    }
}

pub(in super::super) async fn a_list_shows_only_the_queue_and_kind_asked_for(s: &StoreSubject) {
    let sorts = [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x"), ("b", "y"), ("B", "x")];
    let pushed = s.push_all(sorts.map(|(q, k)| job(q).kind(k)).to_vec()).await;
    for (queue, kind, expected) in [
        (Some("a"), None, vec![0, 1, 3]),
        (None, Some("x"), vec![0, 2, 3, 5]),
        (Some("a"), Some("x"), vec![0, 3]),
        (Some("b"), Some("x"), vec![2]),
        (Some("c"), None, vec![]),
        (None, Some("z"), vec![]),
    ] {
        for n in [1, 2, 9] {
            let mut query = query(State::Ready, n);
            (query.queue, query.kind) = (queue.map(name), kind.map(name));
            let expected: Vec<_> = expected.iter().map(|n: &usize| pushed[*n]).collect();
            assert_eq!(listed(s, query).await, expected, "{queue:?} {kind:?} in pages of {n}");
        }
    }
}

pub(in super::super) async fn filters_hold_in_every_state(s: &StoreSubject) {
    let sorts = [("a", "x"), ("a", "y"), ("b", "x")];
    let all = sorts.map(|(q, k)| job(q).kind(k)).to_vec();
    let done = s.push_all(all.clone()).await;
    for job in s.claim(&["a", "b"], 9).await {
        s.done(&job).await;
    }
    let running = s.push_all(all.clone()).await;
    s.claim(&["a", "b"], 9).await;
    let scheduled = s.push_all(all.into_iter().map(|job| job.later(MINUTE)).collect()).await;
    let states = [(State::Done, done), (State::Running, running), (State::Scheduled, scheduled)];
    for (state, pushed) in states {
        for (queue, kind, expected) in [
            (Some("a"), Some("y"), vec![pushed[1]]),
            (Some("b"), None, vec![pushed[2]]),
            (Some("b"), Some("y"), vec![]),
        ] {
            let mut query = query(state, 9);
            (query.queue, query.kind) = (queue.map(name), kind.map(name));
            assert_eq!(listed(s, query).await, expected, "{state:?} {queue:?} {kind:?}");
        }
    }
}

pub(in super::super) async fn a_stable_job_is_listed_once_while_others_change(s: &StoreSubject) {
    let pushed = s.push_all(jobs("q", 6)).await;
    let (mut found, next) = page(s, query(State::Ready, 2)).await;
    for n in [1, 3] {
        s.apply_to_current(pushed[n], &JobEvent::Delete).await;
    }
    s.push(job("q").priority(-1)).await;
    found.extend(listed(s, next.expect("there are more")).await);
    found.retain(|id| ![pushed[1], pushed[3]].contains(id));
    assert_eq!(found, [pushed[0], pushed[2], pushed[4], pushed[5]]);
}

pub(in super::super) async fn an_empty_page_is_valid(s: &StoreSubject) {
    s.push(job("q")).await;
    assert_eq!(expect_ok(s.store.list(query(State::Ready, 0))).await.jobs, []);
    let page = expect_ok(s.store.list(query(State::Ready, 1))).await;
    assert_eq!(page.jobs.len(), 1);
    let after = ListQuery { after: page.next, ..query(State::Ready, 9) };
    if page.next.is_some() {
        assert_eq!(expect_ok(s.store.list(after)).await.jobs, []);
    }
}

/// No job is lost or invented along the way.
pub(in super::super) async fn counts_agree_with_the_jobs_after_mixed_changes(s: &StoreSubject) {
    let mut all = s.push_all([jobs("a", 9), jobs("b", 5)].concat()).await;
    all.push(s.push(job("b").kind("other").later(MINUTE)).await);
    let running = s.claim(&["a"], 7).await;
    s.done(&running[0]).await;
    s.fail_for_good(&running[1]).await;
    s.finish_as_decided(&running[2], Outcome::Cancel).await;
    s.finish_as_decided(&running[3], Outcome::Snooze(SECOND)).await;
    s.finish_as_decided(&running[4], Outcome::Interrupted).await;
    all.push(
        s.push(job("c").after(NewDependencyTarget::Job(running[5].id), DependencyCondition::End))
            .await,
    );
    counts_agree(s, &all).await;
    s.advance(SECOND);
    expect_ok(s.store.promote(9)).await;
    s.apply_to_current(running[1].id, &JobEvent::Retry).await;
    s.apply_to_current(running[2].id, &JobEvent::Delete).await;
    let mut spec = (*s.job(running[4].id).await.spec).clone();
    spec.queue = name("c");
    let edit = JobEvent::Edit(JobEdit { spec: Some(spec.into()), due: None });
    s.apply_to_current(running[4].id, &edit).await;
    s.done(&running[5]).await;
    counts_agree(s, &all).await;
}

async fn counts_agree(s: &StoreSubject, all: &[JobId]) {
    let mut expected = BTreeMap::new();
    for job in expect_ok(s.store.get(JobSelector::all(all))).await.into_iter().flatten() {
        let key = (job.spec.queue.clone(), job.spec.kind.clone(), job.live.state);
        *expected.entry(key).or_insert(0) += 1;
    }
    let expected: Vec<_> = expected
        .into_iter()
        .map(|((queue, kind, state), n)| JobCount { queue, kind, state, n })
        .collect();
    assert_eq!(expect_ok(s.store.counts(None)).await, expected);
    let only: Vec<_> = expected.into_iter().filter(|count| count.queue == name("b")).collect();
    assert_eq!(expect_ok(s.store.counts(Some(name("b")))).await, only);
    assert_eq!(expect_ok(s.store.counts(Some(name("nowhere")))).await, []);
}
