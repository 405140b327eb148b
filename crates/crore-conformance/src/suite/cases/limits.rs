//! Limits hold back jobs in excess, and no others.

use crore_core::limit::LimitKey;
use crore_core::machine::{JobEdit, JobEvent};
use crore_core::{JobId, NewJob, Span, State};
use crore_store::jobs::QueueOrder;

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, name};
use super::super::subject::{JobsSubject, claim, ids};

/// `n` jobs under limit `x`.
fn limited(n: usize) -> Vec<NewJob> {
    vec![job("q").limit("x"); n]
}

pub(in super::super) async fn no_more_jobs_run_than_a_limit_allows(s: &JobsSubject) {
    s.define_limit("x", "concurrency 2").await;
    let pushed = s.push_all(limited(5)).await;
    let claimed = s.ask(claim(&["q"], 9)).await;
    assert_eq!(ids(&claimed.jobs), pushed[..2]);
    assert_eq!(claimed.next_at, None, "no wait can help");
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.done(&claimed.jobs[0]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[2]], "one permit is returned");
}

pub(in super::super) async fn a_limit_holds_over_queues_kinds_and_claims(s: &JobsSubject) {
    s.define_limit("x", "concurrency 2").await;
    let new = vec![job("a").limit("x"), job("b").limit("x").kind("k"), job("c").limit("x")];
    let pushed = s.push_all(new).await;
    assert_eq!(s.claim_ids(&["c"], 9).await, [pushed[2]]);
    assert_eq!(s.claim_ids(&["a", "b"], 9).await, [pushed[0]]);
    assert_eq!(s.claim_ids(&["b"], 9).await, []);
}

pub(in super::super) async fn concurrent_claims_do_not_exceed_a_limit(s: &JobsSubject) {
    s.define_limit("x", "concurrency 3").await;
    s.push_all(limited(20)).await;
    let ask = || s.claim(&["q"], 2);
    let (a, b, c, d) = tokio::join!(ask(), ask(), ask(), ask());
    let running = a.len() + b.len() + c.len() + d.len();
    assert!(running <= 3, "{running} run");
    assert_eq!(running + s.claim(&["q"], 9).await.len(), 3, "no permit is wasted");
}

pub(in super::super) async fn each_value_has_its_own_bucket(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1 per payload.tenant").await;
    let of = |value| job("q").limit_for("x", value);
    let new = vec![of("a"), of("a"), of("b"), of("B"), of("b "), job("q").limit("x"), of("")];
    let pushed = s.push_all([new.clone(), new].concat()).await;
    let expected = [0, 2, 3, 4, 5, 6].map(|n: usize| pushed[n]);
    assert_eq!(s.claim_ids(&["q"], 20).await, expected);
}

/// The blocked head of a lane blocks no other lane, and the order among the others is kept.
pub(in super::super) async fn a_blocked_lane_blocks_no_other(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1").await;
    let new = vec![
        job("q").limit("x").priority(-3),
        job("q").limit("x").priority(-2),
        job("q").priority(2),
        job("q").limit("x").priority(-2),
        job("q").priority(1),
        job("q").kind("other").priority(1),
    ];
    let pushed = s.push_all(new).await;
    let order = [0, 4, 5, 2].map(|n: usize| pushed[n]);
    let first = s.claim(&["q"], 3).await;
    assert_eq!(ids(&first), order[..3]);
    assert_eq!(s.claim_ids(&["q"], 9).await, order[3..]);
    let late = s.push(job("q")).await;
    s.done(&first[0]).await;
    assert_eq!(
        s.claim_ids(&["q"], 9).await,
        [pushed[1], late],
        "blocked jobs keep their order, too"
    );
}

pub(in super::super) async fn a_blocked_queue_yields_to_the_next_in_strict_order(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1").await;
    let pushed = s.push_all([limited(2), vec![job("r")]].concat()).await;
    let mut ask = claim(&["q", "r"], 9);
    ask.order = QueueOrder::Strict;
    assert_eq!(ids(&s.ask(ask).await.jobs), [pushed[0], pushed[2]]);
}

pub(in super::super) async fn a_rate_admits_its_burst_and_then_its_pace(s: &JobsSubject) {
    s.define_limit("x", "rate 1/1s burst 3").await;
    let pushed = s.push_all(limited(9)).await;
    let first = s.ask(claim(&["q"], 9)).await;
    assert_eq!(ids(&first.jobs), pushed[..3]);
    assert_eq!(first.next_at, Some(s.now().after(SECOND)));
    for job in &first.jobs {
        s.done(job).await;
    }
    s.advance(Span::from_millis(999));
    let none = s.ask(claim(&["q"], 9)).await;
    assert_eq!(
        (ids(&none.jobs), none.next_at),
        (vec![], first.next_at),
        "neither by ending nor early"
    );
    s.advance(Span::from_millis(1));
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[3]]);
    s.advance(Span::from_secs(2));
    assert_eq!(s.claim_ids(&["q"], 1).await, [pushed[4]]);
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[5]]);
}

pub(in super::super) async fn an_idle_period_earns_at_most_the_burst(s: &JobsSubject) {
    s.define_limit("x", "rate 10/1s burst 2").await;
    s.push_all(limited(9)).await;
    assert_eq!(s.claim(&["q"], 9).await.len(), 2);
    s.advance(MINUTE);
    assert_eq!(s.claim(&["q"], 9).await.len(), 2);
    assert_eq!(s.claim(&["q"], 9).await.len(), 0);
}

/// When a rate is made faster, usage under the slower rate counts as just used up, and no more, even if a
/// concurrency limit blocked when the rate changed.
pub(in super::super) async fn a_faster_rate_bounds_the_usage_of_the_slower_one(s: &JobsSubject) {
    s.define_limit("x", "rate 1/1m burst 1").await;
    let pushed = s.push_all(limited(2)).await;
    let running = s.claim(&["q"], 9).await;
    assert_eq!(ids(&running), pushed[..1]);
    s.define_limit("x", "rate 1/1s burst 1 concurrency 1").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "one is running");
    s.done(&running[0]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "the rate limit is exhausted");
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[1..]);
}

/// Without a permit the rate is not evaluated: a faster rate defined and removed in the meantime changes
/// nothing.
pub(in super::super) async fn a_rate_that_was_not_evaluated_for_lack_of_permits_changes_nothing(
    s: &JobsSubject,
) {
    s.define_limit("x", "rate 1/1m burst 2").await;
    let pushed = s.push_all(limited(3)).await;
    assert_eq!(s.claim_ids(&["q"], 1).await, pushed[..1]);
    s.define_limit("x", "rate 1/1s burst 1 concurrency 1").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "one is running");
    s.define_limit("x", "rate 1/1m burst 2").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[1..2]);
    s.advance(SECOND);
    assert_eq!(
        s.claim_ids(&["q"], 9).await,
        [],
        "two of two are used up, and a minute has not passed"
    );
}

/// The same if the blocking concurrency belongs to another limit: buckets are evaluated in the order of keys.
pub(in super::super) async fn a_rate_is_evaluated_before_later_limits(s: &JobsSubject) {
    s.define_limit("y", "concurrency 1").await;
    s.define_limit("x", "rate 1/1m burst 2").await;
    let busy = s.start(job("q").limit("y")).await;
    let first = s.start(job("q").limit("x")).await;
    s.done(&first).await;
    let both = s.push(job("q").limit("x").limit("y")).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "one is running");
    s.define_limit("x", "rate 1/1s burst 1").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "exhausted");
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "one is running");
    s.done(&busy).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [both]);
}

pub(in super::super) async fn the_next_time_is_returned_only_when_fewer_jobs_were_claimed(
    s: &JobsSubject,
) {
    s.define_limit("x", "rate 1/1s burst 2").await;
    s.push_all([limited(2), vec![job("q").priority(9); 2]].concat()).await;
    assert_eq!(s.ask(claim(&["q"], 1)).await.next_at, None);
    assert_eq!(s.ask(claim(&["q"], 2)).await.next_at, None, "others had room");
    let rest = s.ask(claim(&["q"], 9)).await;
    assert_eq!((rest.jobs.len(), rest.next_at), (1, None), "the rate limit holds no job");
}

pub(in super::super) async fn a_job_runs_only_if_all_its_limits_allow(s: &JobsSubject) {
    s.define_limit("x", "concurrency 3").await;
    s.define_limit("y", "concurrency 1").await;
    let both = || job("q").limit("x").limit("y");
    let pushed = s.push_all([vec![both(); 3], limited(3)].concat()).await;
    let running = s.claim(&["q"], 9).await;
    let expected = [0, 3, 4].map(|n: usize| pushed[n]);
    assert_eq!(ids(&running), expected, "jobs held by `y` take no permit of `x`");
    s.done(&running[1]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[5]], "`y` still holds the others");
    s.done(&running[0]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[1]], "both permits are returned");
}

/// First no permit is left, then no time has passed: each blocks, and neither forever.
pub(in super::super) async fn a_rate_and_a_concurrency_block_in_turn(s: &JobsSubject) {
    s.define_limit("x", "rate 1/1s concurrency 1").await;
    let pushed = s.push_all(limited(3)).await;
    let first = s.claim_one("q").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "it runs");
    s.done(&first).await;
    let held = s.ask(claim(&["q"], 9)).await;
    assert_eq!((ids(&held.jobs), held.next_at), (vec![], Some(s.now().after(SECOND))));
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[1]]);
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "the rate allows it, but one runs");
}

pub(in super::super) async fn a_changed_limit_applies_as_defined_now(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1").await;
    let pushed = s.push_all(limited(4)).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[..1]);
    s.define_limit("x", "rate 1/1s").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[1..2], "however many run");
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[2..3]);
    s.define_limit("x", "concurrency 4").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[3..], "however fast");
}

pub(in super::super) async fn unclaimed_jobs_do_not_use_the_rate(s: &JobsSubject) {
    s.define_limit("x", "rate 1/1m burst 4").await;
    s.define_limit("y", "concurrency 1").await;
    let new = vec![job("q").limit("y").limit("x"), job("q").limit("y").limit("x")];
    let pushed = s.push_all([new, limited(4)].concat()).await;
    let expected = [0, 2].map(|n: usize| pushed[n]);
    assert_eq!(s.claim_ids(&["q"], 2).await, expected);
    for _ in 0..3 {
        assert_eq!(s.claim_ids(&["elsewhere"], 9).await, []);
        let mut ask = claim(&["q"], 9);
        ask.kinds = Some(vec![name("other")]);
        assert_eq!(ids(&s.ask(ask).await.jobs), []);
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[3], pushed[4]], "two grants are left");
}

pub(in super::super) async fn a_claim_that_takes_less_leaves_the_rest_of_the_permits(
    s: &JobsSubject,
) {
    s.define_limit("x", "concurrency 3").await;
    let pushed = s.push_all(limited(5)).await;
    assert_eq!(s.claim_ids(&["q"], 1).await, pushed[..1]);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[1..3]);
}

pub(in super::super) async fn a_limit_of_zero_stops_everything(s: &JobsSubject) {
    s.define_limit("x", "concurrency 0").await;
    let free = s.push_all([limited(1), vec![job("q")]].concat()).await[1];
    let claimed = s.ask(claim(&["q"], 9)).await;
    assert_eq!((ids(&claimed.jobs), claimed.next_at), (vec![free], None));
}

pub(in super::super) async fn an_unknown_limit_holds_no_job(s: &JobsSubject) {
    s.push_all(limited(5)).await;
    assert_eq!(s.claim(&["q"], 9).await.len(), 5);
}

pub(in super::super) async fn a_limit_applies_from_the_next_claim(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1").await;
    let pushed = s.push_all(limited(9)).await;
    let mut running = s.claim(&["q"], 9).await;
    assert_eq!(running.len(), 1);
    s.define_limit("x", "concurrency 3").await;
    running.extend(s.claim(&["q"], 9).await);
    assert_eq!(running.len(), 3, "raised");
    s.define_limit("x", "concurrency 1").await;
    for job in &running[..2] {
        s.done(job).await;
        assert_eq!(s.claim_ids(&["q"], 9).await, [], "lowered, while others run");
    }
    s.done(&running[2]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [pushed[3]]);
    s.remove_limit("x").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[4..], "removed");
}

/// Usage under the slower rate counts as just used up, and no longer than that.
pub(in super::super) async fn a_rate_that_was_made_faster_does_not_wait_for_the_slower(
    s: &JobsSubject,
) {
    s.define_limit("x", "rate 1/1h").await;
    s.push_all(limited(3)).await;
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
    s.define_limit("x", "rate 1/1s").await;
    let held = s.ask(claim(&["q"], 9)).await;
    assert_eq!((held.jobs.len(), held.next_at), (0, Some(s.now().after(SECOND))));
    s.advance(SECOND);
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

/// A permit that a job did not take, because no limit existed yet, is not returned either.
pub(in super::super) async fn a_late_limit_is_not_widened_by_jobs_that_ran_before(s: &JobsSubject) {
    s.push_all(limited(6)).await;
    let before = s.claim(&["q"], 2).await;
    s.define_limit("x", "concurrency 1").await;
    for job in &before {
        s.done(job).await;
    }
    assert_eq!(s.claim(&["q"], 9).await.len(), 1);
}

pub(in super::super) async fn a_job_with_other_limit_keys_counts_against_those(s: &JobsSubject) {
    s.define_limit("x", "concurrency 0").await;
    let id: JobId = s.push_all(limited(1)).await[0];
    let mut spec = (*s.job(id).await.spec).clone();
    spec.limits = vec![LimitKey { limit: name("x"), value: Some("other".into()) }];
    let edit = |spec| JobEvent::Edit(JobEdit { spec: Some(spec), due: None });
    s.apply_to_current(id, &edit(spec.clone().into())).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "held by a bucket of the same limit");
    spec.limits.clear();
    s.apply_to_current(id, &edit(spec.into())).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
    assert_eq!(s.job(id).await.live.state, State::Running);
}
