//! One live lease per job, and the order of delivery.

use std::collections::BTreeSet;

use crore_core::job::{DEFAULT_LEASE, DueTime};
use crore_core::machine::{JobEdit, JobEvent, Outcome};
use crore_core::{Delivery, Span, State};
use crore_store::jobs::QueueOrder;
use crore_store::registry::QueueSettings;

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, jobs, name};
use super::super::subject::{JobsSubject, claim, ids};

pub(in super::super) async fn one_live_lease_per_job(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 3)).await;
    assert_eq!(s.claim_ids(&["q"], 2).await, pushed[..2]);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[2..]);
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.advance(MINUTE);
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "a lapse needs a decision");
}

pub(in super::super) async fn concurrent_claims_share_no_job(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 40)).await;
    let mut got = Vec::new();
    for _ in 0..40 {
        let (a, b, c, d) = tokio::join!(
            s.claim_ids(&["q"], 7),
            s.claim_ids(&["q"], 7),
            s.claim_ids(&["q"], 7),
            s.claim_ids(&["q"], 7)
        );
        got.extend([a, b, c, d].concat());
    }
    got.sort_unstable();
    assert_eq!(got, pushed, "each job once, and none forgotten");
}

pub(in super::super) async fn a_claimed_job_is_running_under_a_fresh_delivery(s: &JobsSubject) {
    let id = s.push(job("q").with(|job| job.spec.lease = Some(MINUTE))).await;
    let mut expected = s.job(id).await;
    s.advance(SECOND);
    let claimed = s.ask(claim(&["q"], 1)).await;
    assert_eq!((claimed.now, claimed.next_at), (s.now(), None));
    let delivery = claimed.jobs[0].live.delivery;
    assert_ne!(delivery, Delivery::NONE);
    expected.live.claim(delivery, s.now(), Some(MINUTE), &name("worker"));
    assert_eq!(claimed.jobs, [expected.clone()]);
    assert_eq!(s.job(id).await, expected, "as it is stored");
}

pub(in super::super) async fn a_job_without_a_lease_holds_a_hidden_one(s: &JobsSubject) {
    let job = s.start(job("q").with(|job| job.spec.lease = None)).await;
    assert_eq!(job.live.lease_until, s.now().after(DEFAULT_LEASE));
}

pub(in super::super) async fn a_delivery_number_is_never_reused(s: &JobsSubject) {
    s.push_all(jobs("q", 3)).await;
    let (mut last, mut all) = (vec![Delivery::NONE; 3], BTreeSet::new());
    for _ in 0..4 {
        let claimed = s.claim(&["q"], 3).await;
        for (job, last) in claimed.iter().zip(&mut last) {
            assert!(job.live.delivery > *last, "deliveries of a job grow");
            *last = job.live.delivery;
            assert!(all.insert(job.live.delivery), "{:?} was used before", job.live.delivery);
            s.finish_as_decided(job, Outcome::Interrupted).await;
        }
    }
    assert_eq!(all.len(), 12);
}

pub(in super::super) async fn order_is_priority_then_due_then_id(s: &JobsSubject) {
    let mut pushed = Vec::new();
    for priorities in [[2, 1, 3], [3, 1, 2], [1, 1, -5]] {
        pushed.extend(s.push_all(priorities.map(|p| job("q").priority(p)).to_vec()).await);
        s.advance(SECOND);
    }
    let order = [8, 1, 4, 6, 7, 0, 5, 2, 3].map(|n: usize| pushed[n]);
    assert_eq!(s.claim_ids(&["q"], 4).await, order[..4]);
    for id in &order[4..] {
        assert_eq!(s.claim_ids(&["q"], 1).await, [*id], "one by one as in one call");
    }
}

/// Ready jobs are ordered by due time, not by push time.
pub(in super::super) async fn an_earlier_due_time_precedes_a_smaller_id(s: &JobsSubject) {
    let late = s.push(job("q").later(MINUTE)).await;
    s.advance(SECOND);
    let early = s.push(job("q")).await;
    s.advance(MINUTE);
    s.apply_to_current(late, &JobEvent::Retry).await;
    assert_eq!(s.claim_ids(&["q"], 2).await, [early, late]);
}

pub(in super::super) async fn queues_are_merged_unless_the_claim_is_strict(s: &JobsSubject) {
    let new = vec![job("b").priority(1), job("a").priority(2), job("b").priority(3), job("a")];
    let pushed = s.push_all(new).await;
    let order = [3, 0, 1, 2].map(|n: usize| pushed[n]);
    assert_eq!(s.claim_ids(&["a", "b"], 3).await, order[..3]);
    assert_eq!(s.claim_ids(&["b", "a"], 3).await, order[3..]);
}

pub(in super::super) async fn strict_order_empties_one_queue_before_the_next(s: &JobsSubject) {
    let new = vec![job("a").priority(5), job("b").priority(1), job("a").priority(3), job("c")];
    let pushed = s.push_all(new).await;
    let strict = |n| {
        let mut ask = claim(&["a", "b", "c"], n);
        ask.order = QueueOrder::Strict;
        ask
    };
    assert_eq!(ids(&s.ask(strict(1)).await.jobs), [pushed[2]]);
    assert_eq!(ids(&s.ask(strict(9)).await.jobs), [pushed[0], pushed[1], pushed[3]]);
}

pub(in super::super) async fn a_queue_named_twice_is_claimed_from_once(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 3)).await;
    for (order, expected) in
        [(QueueOrder::Merged, &pushed[..2]), (QueueOrder::Strict, &pushed[2..])]
    {
        let mut ask = claim(&["q", "q"], 2);
        ask.order = order;
        assert_eq!(ids(&s.ask(ask).await.jobs), expected, "{order:?}");
    }
}

pub(in super::super) async fn a_claim_takes_only_the_kinds_it_asks_for(s: &JobsSubject) {
    let kinds = ["a", "b", "c", "a", "b"];
    let pushed = s.push_all(kinds.map(|kind| job("q").kind(kind)).to_vec()).await;
    let ask = |kinds: &[&str]| {
        let mut ask = claim(&["q"], 9);
        ask.kinds = Some(kinds.iter().map(|kind| name(kind)).collect());
        ask
    };
    assert_eq!(ids(&s.ask(ask(&[])).await.jobs), []);
    assert_eq!(ids(&s.ask(ask(&["d"])).await.jobs), []);
    assert_eq!(ids(&s.ask(ask(&["b"])).await.jobs), [pushed[1], pushed[4]]);
    assert_eq!(ids(&s.ask(ask(&["c", "a"])).await.jobs), [pushed[0], pushed[2], pushed[3]]);
}

pub(in super::super) async fn a_claim_takes_no_more_than_it_asks_for(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 3)).await;
    assert_eq!(s.claim_ids(&["q"], 0).await, []);
    assert_eq!(s.claim_ids(&["q"], 2).await, pushed[..2]);
    assert_eq!(s.job(pushed[2]).await.live.state, State::Ready);
}

pub(in super::super) async fn an_empty_claim_is_not_an_error(s: &JobsSubject) {
    let elsewhere = s.push(job("q")).await;
    for queues in [&[][..], &["nowhere"], &["nowhere", "nothing"]] {
        let claimed = s.ask(claim(queues, 9)).await;
        assert_eq!((claimed.now, claimed.jobs, claimed.next_at), (s.now(), Vec::new(), None));
    }
    assert_eq!(s.claim_ids(&["nowhere", "q"], 9).await, [elsewhere]);
}

pub(in super::super) async fn a_paused_queue_is_skipped(s: &JobsSubject) {
    let running = s.start(job("q")).await;
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    s.set_queue("q", paused).await;
    let waits = s.push(job("q").priority(-1)).await;
    let flows = s.push(job("r")).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    assert_eq!(s.claim_ids(&["q", "r"], 9).await, [flows]);
    s.done(&running).await;
    assert_eq!(s.job(waits).await.live.state, State::Ready);
    s.set_queue("q", QueueSettings::default()).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [waits]);
}

pub(in super::super) async fn a_job_handed_back_keeps_its_position(s: &JobsSubject) {
    let first = s.push(job("q")).await;
    s.advance(SECOND);
    let second = s.push(job("q")).await;
    let claimed = s.claim_one("q").await;
    assert_eq!(claimed.id, first);
    s.advance(SECOND);
    let third = s.push(job("q")).await;
    s.finish_as_decided(&claimed, Outcome::Interrupted).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [first, second, third]);
}

pub(in super::super) async fn an_edited_job_is_claimed_at_its_new_position(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 3)).await;
    let moved = s.job(pushed[2]).await;
    let mut spec = (*moved.spec).clone();
    spec.priority = -1;
    let edit = JobEdit { spec: Some(spec.clone().into()), due: None };
    s.apply_as_decided(&moved, &JobEvent::Edit(edit)).await;
    spec.queue = name("r");
    let edit = JobEdit { spec: Some(spec.into()), due: None };
    s.apply_to_current(pushed[1], &JobEvent::Edit(edit)).await;
    let later = JobEdit { spec: None, due: Some(DueTime::After(Span::from_secs(9))) };
    s.apply_to_current(pushed[0], &JobEvent::Edit(later)).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[2]], "the other workers have left");
    assert_eq!(s.claim_ids(&["r"], 9).await, [pushed[1]]);
    assert_eq!(s.job(pushed[0]).await.live.state, State::Scheduled);
}
