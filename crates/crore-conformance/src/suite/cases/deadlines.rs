//! Deadlines: a job that has not started by its deadline is never delivered, and is reported for a decision.

use crore_core::job::{DependencyCondition, EndReason, StartDeadline};
use crore_core::machine::{JobEvent, Outcome, RetryDirective};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::unique::UniqueHold;
use crore_core::{JobId, NewJob, Span, State, Time};
use crore_store::jobs::{Applied, Pushed};
use crore_store::upkeep::Lapses;
use crore_store::views::ListQuery;

use super::super::job_builder::{
    DAY, MILLI, MINUTE, NewJobBuilder, SECOND, grouped, job, jobs, name,
};
use super::super::subject::{StoreSubject, change, expect_ok, failed, ids};

/// A job that must start within a span.
fn within(queue: &str, span: Span) -> NewJob {
    job(queue).with(|job| job.deadline = Some(StartDeadline::Within(span)))
}

async fn lapses(s: &StoreSubject, n: usize) -> Lapses {
    expect_ok(s.store.lapsed(n)).await
}

async fn expired(s: &StoreSubject) -> Vec<JobId> {
    ids(&lapses(s, 100).await.expired)
}

/// Expires a job whose deadline is over.
async fn expire(s: &StoreSubject, id: JobId) -> Vec<Pushed> {
    s.apply_to_current(id, &JobEvent::Expired(s.now())).await
}

async fn listed(s: &StoreSubject, state: State, n: usize) -> Vec<JobId> {
    let mut found = Vec::new();
    let mut query =
        ListQuery { state, queue: Some(name("q")), kind: None, key: None, after: None, n };
    loop {
        let page = expect_ok(s.store.list(query.clone())).await;
        found.extend(ids(&page.jobs));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return found,
        }
    }
}

pub(in super::super) async fn a_deadline_comes_from_the_clock_of_the_store(s: &StoreSubject) {
    let id = s.push(within("q", MINUTE)).await;
    assert_eq!(s.job(id).await.live.deadline, Some(s.now().after(MINUTE)));
    let at = StartDeadline::At(Time::from_millis(5));
    let past = s.push(job("q").with(|job| job.deadline = Some(at))).await;
    assert_eq!(s.job(past).await.live.deadline, Some(Time::from_millis(5)), "as given");
    assert_eq!(s.job(s.push(job("q")).await).await.live.deadline, None);
}

pub(in super::super) async fn a_job_is_not_delivered_at_its_deadline_nor_later(s: &StoreSubject) {
    s.push_all(vec![within("q", SECOND); 2]).await;
    s.advance(SECOND.times(1));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.advance(DAY);
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    let kept = s.push(within("q", SECOND)).await;
    s.advance(Span::from_millis(999));
    assert_eq!(s.claim_ids(&["q"], 9).await, [kept], "until the instant before");
}

pub(in super::super) async fn a_deadline_in_the_past_is_over_at_once(s: &StoreSubject) {
    let at = StartDeadline::At(s.now());
    let id = s.push(job("q").with(|job| job.deadline = Some(at))).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    assert_eq!(expired(s).await, [id]);
}

pub(in super::super) async fn an_expired_job_does_not_hold_up_others(s: &StoreSubject) {
    s.define_limit("slow", "rate 2/1h").await;
    let first = s.push_all(vec![within("q", SECOND).limit("slow").priority(-1); 3]).await;
    let others = s.push_all(vec![job("q").limit("slow"); 3]).await;
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, others[..2], "no permit is spent on an expired job");
    assert_eq!(expired(s).await, first);
}

pub(in super::super) async fn jobs_past_their_deadline_are_reported_by_deadline_up_to_n(
    s: &StoreSubject,
) {
    let late = s.push(within("q", SECOND.times(3))).await;
    let soon = s.push(within("r", SECOND)).await;
    let waiting = s.push(job("q")).await;
    let on = NewDependencyTarget::Job(waiting);
    let held = s.push(within("q", SECOND).after(on, DependencyCondition::Success)).await;
    let scheduled = s.push(within("q", SECOND.times(2)).later(MINUTE)).await;
    let start = s.now();
    assert_eq!(lapses(s, 100).await.next_at, Some(start.after(SECOND)));
    s.advance(SECOND.times(2));
    // A claim takes some of them out of their lanes, which changes nothing in the report.
    s.claim(&["r"], 1).await;
    let found = lapses(s, 100).await;
    assert_eq!(ids(&found.expired), [soon, held, scheduled]);
    assert_eq!(found.next_at, Some(start.after(SECOND.times(3))));
    let found = lapses(s, 2).await;
    assert_eq!(ids(&found.expired), [soon, held]);
    assert!(found.next_at.is_some_and(|at| at <= s.now()), "there are more");
    s.advance(SECOND);
    assert_eq!(expired(s).await, [soon, held, scheduled, late]);
}

pub(in super::super) async fn an_expired_job_is_shown_until_it_is_decided(s: &StoreSubject) {
    let plain = s.push(job("q").priority(5)).await;
    let mut order = s.push_all(vec![within("q", SECOND).priority(7), within("q", SECOND)]).await;
    s.advance(SECOND);
    s.claim(&["r"], 1).await;
    order.reverse();
    order.insert(1, plain);
    for n in [1, 2, 9] {
        assert_eq!(listed(s, State::Ready, n).await, order, "in pages of {n}");
    }
    let count = |counts: Vec<crore_store::views::JobCount>, state| {
        counts.iter().filter(|count| count.state == state).map(|count| count.n).sum::<u64>()
    };
    let counts = expect_ok(s.store.counts(None)).await;
    assert_eq!(count(counts, State::Ready), 3);
    for id in [order[0], order[2]] {
        expire(s, id).await;
    }
    let counts = expect_ok(s.store.counts(None)).await;
    assert_eq!((count(counts.clone(), State::Ready), count(counts, State::Cancelled)), (1, 2));
    assert_eq!(listed(s, State::Ready, 9).await, [plain]);
    assert_eq!((expired(s).await, s.claim_ids(&["q"], 9).await), (vec![], vec![plain]));
}

pub(in super::super) async fn an_expired_job_releases_its_key_before_its_follow_up(
    s: &StoreSubject,
) {
    let next = job("next").unique("k", UniqueHold::UntilEnd);
    let expiring = within("q", SECOND)
        .unique("k", UniqueHold::UntilEnd)
        .with(|job| job.spec.on_expired = Some(Box::new(next)));
    let id = s.push(expiring.clone()).await;
    assert_eq!(s.job(id).await.spec.on_expired, expiring.spec.on_expired, "reads back");
    s.advance(SECOND);
    let decided = change(&s.job(id).await, &JobEvent::Expired(s.now()));
    let pushed = expire(s, id).await;
    let [Pushed::New(follow_up)] = pushed[..] else { panic!("one follow-up, not {pushed:?}") };
    assert_eq!(s.apply(decided).await, Applied::Stale, "once");
    let live = s.job(id).await.live;
    assert_eq!((live.state, live.why), (State::Cancelled, Some(EndReason::Expired)));
    assert_eq!(s.job(follow_up).await.spec.parent, Some((id, 0)));
    assert_eq!(s.holders(&["k"]).await, [Some(follow_up)]);
    assert_eq!(s.claim_ids(&["next", "q"], 9).await, [follow_up]);
}

pub(in super::super) async fn an_expired_job_breaks_jobs_that_need_its_success(s: &StoreSubject) {
    let expiring = within("q", SECOND).member(GroupRef::New(0));
    let needs = |needs| job("q").after(NewDependencyTarget::Earlier(0), needs);
    let batch = vec![
        expiring,
        needs(DependencyCondition::Success),
        needs(DependencyCondition::End),
        job("q").after(NewDependencyTarget::Group(GroupRef::New(0)), DependencyCondition::End),
    ];
    let pushed = s.batch(grouped(batch)).await;
    let pushed: Vec<JobId> = pushed.jobs.iter().filter_map(|one| one.id()).collect();
    s.advance(SECOND);
    expire(s, pushed[0]).await;
    assert_eq!(ids(&lapses(s, 9).await.broken), [pushed[1]]);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[2..]);
}

pub(in super::super) async fn a_job_with_a_broken_dependency_is_reported_once(s: &StoreSubject) {
    let first = s.push(job("q")).await;
    let on = NewDependencyTarget::Job(first);
    let id = s.push(within("q", SECOND).after(on, DependencyCondition::Success)).await;
    s.apply_to_current(first, &JobEvent::Cancel).await;
    s.advance(SECOND);
    let found = lapses(s, 9).await;
    assert_eq!((ids(&found.broken), ids(&found.expired)), (vec![id], vec![]));
}

pub(in super::super) async fn the_first_start_removes_the_deadline(s: &StoreSubject) {
    let running = s.start(within("q", SECOND)).await;
    assert_eq!(running.live.deadline, None);
    s.advance(MINUTE);
    assert_eq!(expired(s).await, []);
    s.finish_as_decided(&running, failed(RetryDirective::After(Span::ZERO))).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [running.id], "a retry has no deadline");
}

pub(in super::super) async fn a_job_handed_back_has_no_deadline(s: &StoreSubject) {
    let running = s.start(within("q", SECOND)).await;
    s.finish_as_decided(&running, Outcome::Interrupted).await;
    s.advance(MINUTE);
    assert_eq!((expired(s).await, s.claim_ids(&["q"], 9).await), (vec![], vec![running.id]));
}

pub(in super::super) async fn a_retry_by_hand_revives_an_expired_job(s: &StoreSubject) {
    let id = s.push(within("q", SECOND)).await;
    s.advance(SECOND);
    s.claim(&["q"], 1).await;
    expire(s, id).await;
    s.apply_to_current(id, &JobEvent::Retry).await;
    assert_eq!(s.job(id).await.live.deadline, None);
    s.advance(MINUTE);
    assert_eq!((expired(s).await, s.claim_ids(&["q"], 9).await), (vec![], vec![id]));
}

pub(in super::super) async fn a_scheduled_job_past_its_deadline_is_not_delivered(s: &StoreSubject) {
    let id = s.push(within("q", SECOND).later(MINUTE)).await;
    s.advance(MINUTE);
    expect_ok(s.store.promote(9)).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "also after it was promoted");
    assert_eq!(expired(s).await, [id]);
}

pub(in super::super) async fn a_change_of_an_expired_job_keeps_it_from_delivery(s: &StoreSubject) {
    let id = s.push(within("q", SECOND)).await;
    s.advance(SECOND);
    s.claim(&["q"], 1).await;
    let edit = |job: &crore_core::Job| {
        let mut spec = (*job.spec).clone();
        (spec.queue, spec.priority) = (name("r"), -5);
        let spec = Some(std::sync::Arc::new(spec));
        JobEvent::Edit(crore_core::machine::JobEdit { spec, due: None })
    };
    let job = s.job(id).await;
    s.apply_as_decided(&job, &edit(&job)).await;
    assert_eq!((s.claim_ids(&["q", "r"], 9).await, expired(s).await), (vec![], vec![id]));
    s.apply_to_current(id, &JobEvent::Delete).await;
    assert_eq!((expired(s).await, lapses(s, 9).await.next_at), (vec![], None));
}

pub(in super::super) async fn many_jobs_expire_together(s: &StoreSubject) {
    s.push_all(vec![within("q", SECOND); 40]).await;
    let plain = s.push_all(jobs("q", 2)).await;
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, plain);
    let found = lapses(s, 1000).await;
    assert_eq!(found.expired.len(), 40);
    for job in &found.expired {
        expire(s, job.id).await;
    }
    s.advance(MILLI);
    assert_eq!(expired(s).await, []);
}
