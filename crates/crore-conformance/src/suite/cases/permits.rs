//! Every end of a run returns its permit, exactly once.

use crore_core::job::Lapse;
use crore_core::machine::{JobEvent, Outcome, RetryDirective};
use crore_core::{Job, Span, State};
use crore_store::jobs::Applied;

use super::super::job_builder::{NewJobBuilder, job};
use super::super::subject::{JobsSubject, failed, finished};

/// However a run ends, the next one finds a permit, and there is never more than one.
async fn assert_permit_returns(s: &JobsSubject, end: impl Fn(&Job) -> JobEvent) {
    s.define_limit("x", "concurrency 1 per kind").await;
    for _ in 0..3 {
        let new = job("q").limit_for("x", "v").with(|job| job.spec.lapse = Lapse::Again);
        let id = s.push(new).await;
        for round in 0..3 {
            let running = s.claim_one("q").await;
            assert_eq!(running.id, id, "round {round}");
            s.push(job("q").limit_for("x", "v").priority(1)).await;
            assert_eq!(s.claim_ids(&["q"], 9).await, [], "it holds the one permit");
            let event = end(&running);
            s.apply_as_decided(&running, &event).await;
            assert_eq!(
                s.apply_event(&running, &event).await,
                Applied::Stale,
                "and not a second time"
            );
            if s.find(id).await.is_none_or(|job| job.live.state.has_ended()) {
                break;
            }
            s.advance(Span::from_secs(1));
            if s.job(id).await.live.state == State::Scheduled {
                s.apply_to_current(id, &JobEvent::Retry).await;
            }
        }
        if let Some(job) = s.find(id).await {
            s.apply_as_decided(&job, &JobEvent::Delete).await;
        }
        let rest = s.claim(&["q"], 9).await;
        assert_eq!(rest.len(), 1, "one permit, no more");
        s.done(&rest[0]).await;
        for _ in 0..9 {
            for left in s.claim(&["q"], 9).await {
                s.done(&left).await;
            }
        }
    }
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_is_done(s: &JobsSubject) {
    assert_permit_returns(s, |job| finished(job, Outcome::Done { result: None })).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_fails(s: &JobsSubject) {
    assert_permit_returns(s, |job| finished(job, failed(RetryDirective::After(Span::ZERO)))).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_waits_to_be_retried(s: &JobsSubject) {
    assert_permit_returns(s, |job| {
        finished(job, failed(RetryDirective::After(Span::from_secs(9))))
    })
    .await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_dies(s: &JobsSubject) {
    assert_permit_returns(s, |job| finished(job, failed(RetryDirective::Never))).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_is_snoozed(s: &JobsSubject) {
    assert_permit_returns(s, |job| finished(job, Outcome::Snooze(Span::ZERO))).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_is_handed_back(s: &JobsSubject) {
    assert_permit_returns(s, |job| finished(job, Outcome::Interrupted)).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_is_given_up(s: &JobsSubject) {
    assert_permit_returns(s, |job| finished(job, Outcome::Cancel)).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_lease_lapses(s: &JobsSubject) {
    assert_permit_returns(s, |job| JobEvent::Lapsed(job.live.delivery)).await;
}

pub(in super::super) async fn a_permit_is_returned_when_a_job_times_out(s: &JobsSubject) {
    assert_permit_returns(s, |job| JobEvent::TimedOut(job.live.delivery)).await;
}

pub(in super::super) async fn a_permit_is_held_until_a_cancelled_job_has_stopped(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1").await;
    let running = s.start(job("q").limit("x")).await;
    let waits = s.push(job("q").limit("x")).await;
    s.apply_as_decided(&running, &JobEvent::Cancel).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "it still runs");
    let asked = s.job(running.id).await;
    s.finish_as_decided(&asked, Outcome::Cancel).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [waits]);
}

pub(in super::super) async fn a_job_that_never_ran_returns_no_permit(s: &JobsSubject) {
    s.define_limit("x", "concurrency 1").await;
    s.start(job("q").limit("x")).await;
    for event in [JobEvent::Cancel, JobEvent::Delete] {
        let id = s.push(job("q").limit("x")).await;
        s.apply_to_current(id, &event).await;
    }
    s.push(job("q").limit("x")).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}
