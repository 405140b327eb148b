//! Due jobs become ready, never early, and leases end on time.

use crore_core::machine::{JobEvent, Outcome, RetryDirective};
use crore_core::{Job, Span, State};
use crore_store::jobs::{Applied, Renewed};
use crore_store::upkeep::Promoted;

use super::super::job_builder::{MILLI, MINUTE, NewJobBuilder, SECOND, job, jobs};
use super::super::subject::{StoreSubject, change, expect_ok, failed, ids};

async fn promote(s: &StoreSubject, n: usize) -> Promoted {
    let promoted = expect_ok(s.store.promote(n)).await;
    assert_eq!(promoted.now, s.now());
    promoted
}

pub(in super::super) async fn a_scheduled_job_is_never_early(s: &StoreSubject) {
    let id = s.push(job("q").later(SECOND)).await;
    let due = s.now().after(SECOND);
    for pass in [Span::ZERO, Span::from_millis(999)] {
        s.advance(pass);
        let promoted = promote(s, 9).await;
        assert_eq!((promoted.count, promoted.next_at), (0, Some(due)));
        assert_eq!(s.claim_ids(&["q"], 9).await, []);
    }
    let scheduled = s.job(id).await;
    s.advance(MILLI);
    let promoted = promote(s, 9).await;
    assert_eq!((promoted.count, promoted.next_at), (1, None));
    let mut expected = scheduled;
    expected.live.promote();
    assert_eq!(s.job(id).await, expected);
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
}

pub(in super::super) async fn due_jobs_are_promoted_earliest_first_up_to_n(s: &StoreSubject) {
    let new = [3, 1, 2, 1, 9].map(|n| job("q").later(Span::from_secs(n))).to_vec();
    let pushed = s.push_all(new).await;
    let last = s.now().after(Span::from_secs(9));
    let next = s.now().after(Span::from_secs(2));
    s.advance(Span::from_secs(5));
    assert_eq!(promote(s, 0).await.count, 0);
    let promoted = promote(s, 2).await;
    assert_eq!((promoted.count, promoted.next_at), (2, Some(next)));
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[1], pushed[3]]);
    let promoted = promote(s, 9).await;
    assert_eq!((promoted.count, promoted.next_at), (2, Some(last)));
    assert_eq!(promote(s, 9).await.count, 0, "once");
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[2], pushed[0]]);
}

pub(in super::super) async fn a_promoted_job_is_ordered_by_its_due_time(s: &StoreSubject) {
    let new = vec![job("q").later(Span::from_secs(2)), job("q").later(SECOND)];
    let pushed = s.push_all(new).await;
    s.advance(Span::from_millis(1500));
    let between = s.push(job("q")).await;
    s.advance(MINUTE);
    let urgent = s.push(job("q").priority(-1)).await;
    promote(s, 9).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [urgent, pushed[1], between, pushed[0]]);
}

pub(in super::super) async fn a_retry_is_promoted_like_any_other(s: &StoreSubject) {
    let first = s.start(job("q")).await;
    s.finish_as_decided(&first, failed(RetryDirective::After(SECOND))).await;
    s.advance(SECOND);
    assert_eq!(promote(s, 9).await.count, 1);
    let second = s.claim_one("q").await;
    assert_eq!((second.id, second.live.attempt), (first.id, 2));
    s.finish_as_decided(&second, Outcome::Snooze(SECOND)).await;
    s.advance(SECOND);
    assert_eq!(promote(s, 9).await.count, 1);
}

pub(in super::super) async fn jobs_that_left_the_scheduled_state_are_not_promoted(
    s: &StoreSubject,
) {
    let pushed = s.push_all(vec![job("q").later(SECOND); 3]).await;
    s.apply_to_current(pushed[0], &JobEvent::Cancel).await;
    s.apply_to_current(pushed[1], &JobEvent::Delete).await;
    s.apply_to_current(pushed[2], &JobEvent::Retry).await;
    let promoted = promote(s, 9).await;
    assert_eq!((promoted.count, promoted.next_at), (0, None));
    s.advance(MINUTE);
    assert_eq!(promote(s, 9).await.count, 0);
    assert_eq!(s.job(pushed[0]).await.live.state, State::Cancelled);
}

pub(in super::super) async fn a_promotion_makes_older_decisions_stale(s: &StoreSubject) {
    let id = s.push(job("q").later(SECOND)).await;
    let scheduled = s.job(id).await;
    s.advance(SECOND);
    promote(s, 9).await;
    let ready = s.job(id).await;
    assert_eq!(s.apply(change(&scheduled, &JobEvent::Retry)).await, Applied::Stale);
    assert_eq!(s.job(id).await, ready);
}

pub(in super::super) async fn a_clock_set_back_delivers_nothing_early(s: &StoreSubject) {
    let id = s.push(job("q").later(SECOND)).await;
    s.clock.set(s.now().before(MINUTE));
    assert_eq!(expect_ok(s.store.promote(9)).await.count, 0);
    assert_eq!(s.job(id).await.live.state, State::Scheduled);
}

pub(in super::super) async fn a_lease_lapses_at_its_end_and_not_before(s: &StoreSubject) {
    let running = s.start(job("q").with(|job| job.spec.lease = Some(SECOND))).await;
    s.advance(Span::from_millis(999));
    let lapses = expect_ok(s.store.lapsed(9)).await;
    assert_eq!((lapses.now, ids(&lapses.lapsed)), (s.now(), vec![]));
    assert_eq!(lapses.next_at, Some(running.live.lease_until));
    s.advance(MILLI);
    for _ in 0..2 {
        let lapses = expect_ok(s.store.lapsed(9)).await;
        assert_eq!(lapses.lapsed, std::slice::from_ref(&running), "reading changes nothing");
        assert_eq!(lapses.next_at, None, "the reported time is not the next one");
    }
    assert_eq!(s.job(running.id).await, running);
    s.apply_as_decided(&running, &JobEvent::Lapsed(running.live.delivery)).await;
    let lapses = expect_ok(s.store.lapsed(9)).await;
    assert_eq!((ids(&lapses.lapsed), lapses.next_at), (vec![], None));
}

pub(in super::super) async fn lapsed_leases_are_listed_up_to_n(s: &StoreSubject) {
    s.push_all(jobs("q", 5)).await;
    let running = s.claim(&["q"], 5).await;
    s.advance(MINUTE);
    assert_eq!(expect_ok(s.store.lapsed(0)).await.lapsed, []);
    let some = expect_ok(s.store.lapsed(2)).await;
    assert_eq!((some.lapsed.len(), some.next_at), (2, Some(running[2].live.lease_until)));
    let lapse = |job: &Job| JobEvent::Lapsed(job.live.delivery);
    for round in 1..=3 {
        for job in expect_ok(s.store.lapsed(2)).await.lapsed {
            s.apply_as_decided(&job, &lapse(&job)).await;
        }
        let left = expect_ok(s.store.lapsed(9)).await.lapsed.len();
        assert_eq!(left, 5_usize.saturating_sub(2 * round));
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, ids(&running), "all are returned in order");
}

pub(in super::super) async fn a_renewed_lease_has_not_lapsed(s: &StoreSubject) {
    let running = s.start(job("q").with(|job| job.spec.lease = Some(SECOND))).await;
    s.advance(SECOND);
    assert_eq!(expect_ok(s.store.lapsed(9)).await.lapsed.len(), 1);
    let renewed = s.renew(&running, None).await;
    let until = s.now().after(SECOND);
    assert_eq!(renewed, Renewed::Until { until, stop: false });
    let lapses = expect_ok(s.store.lapsed(9)).await;
    assert_eq!((ids(&lapses.lapsed), lapses.next_at), (vec![], Some(until)));
    s.advance(SECOND);
    assert_eq!(ids(&expect_ok(s.store.lapsed(9)).await.lapsed), [running.id]);
}

pub(in super::super) async fn only_running_jobs_lapse(s: &StoreSubject) {
    s.push_all(vec![job("q"), job("q"), job("q").later(SECOND)]).await;
    s.done(&s.claim_one("q").await).await;
    s.finish_as_decided(&s.claim_one("q").await, Outcome::Interrupted).await;
    s.advance(MINUTE.times(10));
    let lapses = expect_ok(s.store.lapsed(9)).await;
    assert_eq!((ids(&lapses.lapsed), lapses.next_at), (vec![], None));
}
