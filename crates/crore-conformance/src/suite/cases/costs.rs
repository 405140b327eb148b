//! Costs: a limit counts what its jobs cost, and a report corrects it or pauses a key.
//!
//! A reservation may be lost when a store is reopened, which can happen between any two calls of a case.

use crore_core::limit::{LimitKey, PauseEnd};
use crore_core::machine::{JobEvent, Outcome, Report};
use crore_core::{Job, NewJob, Span, State};
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::views::PausedKey;

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, name};
use super::super::subject::{StoreSubject, claim, ids};

const BUDGET: &str = "rate 10/1s cost payload.n";

/// A job that costs this much under limit `x`.
fn costing(cost: u32) -> NewJob {
    job("q").limit("x").with(|job| job.spec.costs = Some([cost].into()))
}

/// Reports that a job is done and what it cost under limit `x`.
async fn done_at(s: &StoreSubject, job: &Job, real: u32) {
    let mut report = Report::from(Outcome::Done { result: None });
    report.costs.insert(name("x"), real);
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
    assert_eq!(s.apply_event(job, &event).await, Applied::Yes(Vec::new()));
}

fn exhausted(span: Span) -> Outcome {
    Outcome::Exhausted { limit: name("x"), until: PauseEnd::After(span) }
}

pub(in super::super) async fn a_start_takes_its_whole_cost(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    let pushed = s.push_all(vec![costing(7), costing(4), costing(3)]).await;
    let first = s.ask(claim(&["q"], 9)).await;
    assert_eq!(
        ids(&first.jobs),
        pushed[..1],
        "the second does not fit, and the third does not pass it"
    );
    assert_eq!(first.next_at, Some(s.now().after(Span::from_millis(100))));
    s.advance(Span::from_millis(99));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.advance(Span::from_millis(1));
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[1..2]);
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[2..]);
}

pub(in super::super) async fn a_cheap_job_does_not_pass_an_expensive_one(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    s.start(costing(5)).await;
    let expensive = s.push(costing(8)).await;
    let cheap = s.push_all(vec![costing(1).kind("other"); 20]).await;
    for _ in 0..3 {
        let claimed = s.ask(claim(&["q"], 1)).await;
        assert_eq!(ids(&claimed.jobs), [], "the budget is kept for the expensive job");
        s.advance(Span::from_millis(100));
    }
    assert_eq!(s.claim_ids(&["q"], 1).await, [expensive]);
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 99).await, cheap[..10]);
}

pub(in super::super) async fn a_better_priority_passes_a_job_that_waits_for_its_cost(
    s: &StoreSubject,
) {
    s.define_limit("x", BUDGET).await;
    s.start(costing(5)).await;
    s.push(costing(8)).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    let urgent = s.push(costing(3).kind("other").priority(-1)).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [urgent]);
}

pub(in super::super) async fn a_job_takes_from_all_its_budgets_or_from_none(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    s.define_limit("y", "rate 20/1s cost payload.m").await;
    let of = |x: u32, y: u32| {
        job("q").limit("x").limit("y").with(|job| job.spec.costs = Some([x, y].into()))
    };
    s.start(of(4, 16)).await;
    let second = s.push(of(6, 5)).await;
    let claimed = s.ask(claim(&["q"], 9)).await;
    assert_eq!(
        (ids(&claimed.jobs), claimed.next_at),
        (vec![], Some(s.now().after(Span::from_millis(50))))
    );
    s.advance(Span::from_millis(50));
    assert_eq!(s.claim_ids(&["q"], 9).await, [second]);
}

pub(in super::super) async fn a_report_settles_the_real_cost(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    let first = s.start(costing(10)).await;
    let pushed = s.push_all(vec![costing(7), costing(1), costing(1)]).await;
    done_at(s, &first, 2).await;
    let second = s.claim(&["q"], 9).await;
    assert_eq!(ids(&second), pushed[..2], "8 were given back");
    done_at(s, &second[0], 13).await;
    let claimed = s.ask(claim(&["q"], 9)).await;
    let at = s.now().after(Span::from_millis(700));
    assert_eq!((ids(&claimed.jobs), claimed.next_at), (vec![], Some(at)), "6 in debt");
    s.advance(Span::from_millis(700));
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[2..]);
}

pub(in super::super) async fn a_debt_is_at_most_one_burst(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    let first = s.start(costing(10)).await;
    let next = s.push(costing(10)).await;
    done_at(s, &first, u32::MAX).await;
    s.advance(Span::from_millis(1999));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.advance(Span::from_millis(1));
    assert_eq!(s.claim_ids(&["q"], 9).await, [next]);
}

pub(in super::super) async fn a_lapse_settles_nothing(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    let first = s.start(costing(10)).await;
    let event = JobEvent::WorkerLost(first.live.delivery);
    assert_eq!(s.apply_event(&first, &event).await, Applied::Yes(Vec::new()));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.advance(SECOND);
    assert_eq!(s.claim_ids(&["q"], 9).await, [first.id]);
}

pub(in super::super) async fn a_cost_above_a_lowered_burst_counts_as_the_burst(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    s.start(costing(10)).await;
    let next = s.push(costing(9)).await;
    s.define_limit("x", "rate 10/1s burst 3 cost payload.n").await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.advance(MINUTE);
    assert_eq!(s.claim_ids(&["q"], 9).await, [next]);
}

pub(in super::super) async fn an_exhausted_key_is_paused_alone(s: &StoreSubject) {
    for text in ["rate 10/1s cost payload.n per payload.key", "concurrency 5 per payload.key"] {
        s.define_limit("x", text).await;
        let of = |value| job("q").limit_for("x", value);
        let pushed = s.push_all(vec![of("a"), of("a"), of("b")]).await;
        let first = s.claim_one("q").await;
        s.finish_as_decided(&first, exhausted(MINUTE)).await;
        let back = s.job(first.id).await;
        assert_eq!((back.live.state, back.live.attempt), (State::Ready, 0));
        let others = s.ask(claim(&["q"], 9)).await;
        let until = s.now().after(MINUTE);
        assert_eq!((ids(&others.jobs), others.next_at), (pushed[2..].to_vec(), Some(until)));
        let key = LimitKey { limit: name("x"), value: Some("a".into()) };
        let paused = s.store.paused_keys(Some(name("x")), 9).await.expect("a response");
        assert_eq!(paused, [PausedKey { key, until }]);
        assert_eq!(s.store.paused_keys(Some(name("y")), 9).await.expect("a response"), []);
        s.advance(Span::from_millis(59_999));
        assert_eq!(s.claim_ids(&["q"], 9).await, []);
        s.advance(Span::from_millis(1));
        assert_eq!(s.store.paused_keys(None, 9).await.expect("a response"), []);
        let rest = s.claim(&["q"], 9).await;
        assert_eq!(ids(&rest), pushed[..2], "the job kept its place");
        for job in rest.iter().chain(&others.jobs) {
            s.done(job).await;
        }
        s.advance(MINUTE);
    }
}

pub(in super::super) async fn an_operator_ends_a_pause(s: &StoreSubject) {
    s.define_limit("x", "concurrency 5 per payload.key").await;
    let of = |value| job("q").limit_for("x", value);
    let pushed = s.push_all(vec![of("a"), of("b")]).await;
    for job in s.claim(&["q"], 2).await {
        s.finish_as_decided(&job, exhausted(MINUTE)).await;
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    let key = LimitKey { limit: name("x"), value: Some("b".into()) };
    let resume = |key| StoreWrite::ResumeKeys { limit: name("x"), key };
    assert_eq!(s.write(resume(Some(key.clone()))).await, Applied::Yes(Vec::new()));
    assert_eq!(s.write(resume(Some(key))).await, Applied::Stale);
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[1..]);
    assert_eq!(s.write(resume(None)).await, Applied::Yes(Vec::new()));
    assert_eq!(s.claim_ids(&["q"], 9).await, pushed[..1]);
    assert_eq!(s.write(resume(None)).await, Applied::Stale);
}

pub(in super::super) async fn an_exhausted_job_has_cost_nothing(s: &StoreSubject) {
    s.define_limit("x", BUDGET).await;
    let first = s.start(costing(10)).await;
    s.finish_as_decided(&first, exhausted(Span::from_millis(10))).await;
    s.advance(Span::from_millis(10));
    assert_eq!(s.claim_ids(&["q"], 9).await, [first.id], "its cost was given back");
}
