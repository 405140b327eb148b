//! Results are kept as the job specifies, and taken at most once.

use crore_core::job::{JobRetention, ResultRetention};
use crore_core::machine::{JobEvent, Outcome, Refusal, RetryDirective, decide};
use crore_core::{Encoding, Job, JobId, NewJob, Payload, Span};
use crore_store::jobs::Applied;

use super::super::job_builder::{MILLI, MINUTE, NewJobBuilder, job};
use super::super::subject::{JobsSubject, StoreSubject, expect_ok};

fn result() -> Payload {
    Payload::new(Encoding::Bytes, vec![0, 255, 0])
}

/// A job that was done with a result.
async fn done_with(s: &JobsSubject, new: NewJob) -> JobId {
    let job = s.start(new).await;
    s.finish_as_decided(&job, Outcome::Done { result: Some(result()) }).await;
    job.id
}

fn shown(job: &Job, s: &JobsSubject) -> Option<Payload> {
    job.result_at(s.now()).map(|kept| kept.payload.clone())
}

pub(in super::super) async fn a_result_is_kept_for_its_retention(s: &JobsSubject) {
    let id = done_with(s, job("q").keep(ResultRetention::For(MINUTE))).await;
    let kept = s.job(id).await.live.result.expect("it is kept");
    assert_eq!((kept.payload, kept.until, kept.once), (result(), s.now().after(MINUTE), false));
    s.advance(Span::from_millis(59_999));
    assert_eq!(shown(&s.job(id).await, s), Some(result()));
    s.advance(MILLI);
    assert_eq!(shown(&s.job(id).await, s), None);
}

pub(in super::super) async fn a_result_without_retention_is_not_kept(s: &JobsSubject) {
    let id = done_with(s, job("q").keep(ResultRetention::Discard)).await;
    assert_eq!(s.job(id).await.live.result, None);
}

pub(in super::super) async fn a_large_result_is_kept_exactly(s: &JobsSubject) {
    let running = s.start(job("q").keep(ResultRetention::For(MINUTE))).await;
    let large: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let large = Payload::new(Encoding::Bytes, large);
    s.finish_as_decided(&running, Outcome::Done { result: Some(large.clone()) }).await;
    assert!(shown(&s.job(running.id).await, s) == Some(large), "every byte of it");
}

pub(in super::super) async fn only_one_of_two_takers_gets_the_result(s: &JobsSubject) {
    let id = done_with(s, job("q").keep(ResultRetention::Once(MINUTE))).await;
    let seen = s.job(id).await;
    assert!(seen.live.result.as_ref().is_some_and(|kept| kept.once), "the result is read-once");
    let take = JobEvent::TakeResult;
    let (a, b) = tokio::join!(s.apply_event(&seen, &take), s.apply_event(&seen, &take));
    let wins = [a, b].iter().filter(|answer| **answer != Applied::Stale).count();
    assert_eq!(wins, 1, "one wins");
    let after = s.job(id).await;
    assert_eq!(after.live.result, None);
    assert_eq!(decide(&after, &take, 0), Err(Refusal::Nothing));
}

pub(in super::super) async fn a_job_kept_for_its_result_is_gone_when_that_is_taken(
    s: &JobsSubject,
) {
    let new = job("q")
        .keep(ResultRetention::Once(MINUTE))
        .with(|job| job.spec.retain = JobRetention::Nothing);
    let id = done_with(s, new).await;
    s.apply_to_current(id, &JobEvent::TakeResult).await;
    assert_eq!(s.find(id).await, None);
}

pub(in super::super) async fn a_dead_job_keeps_its_error(s: &JobsSubject) {
    let running = s.start(job("q").keep(ResultRetention::For(MINUTE))).await;
    let detail = Some(result());
    s.finish_as_decided(
        &running,
        Outcome::Failed { error: "no".into(), detail, again: RetryDirective::Never },
    )
    .await;
    let dead = s.job(running.id).await;
    assert_eq!(shown(&dead, s), Some(result()));
    assert_eq!(dead.live.history[0].error.as_deref(), Some("no"));
    s.apply_as_decided(&dead, &JobEvent::Retry).await;
    assert_eq!(s.job(dead.id).await.live.result, None, "until it is tried again");
}

pub(in super::super) async fn a_result_whose_time_is_over_is_pruned_and_its_job_stays(
    s: &StoreSubject,
) {
    let running = s.start(job("q").keep(ResultRetention::For(MINUTE))).await;
    s.finish_as_decided(&running, Outcome::Done { result: Some(result()) }).await;
    s.advance(Span::from_millis(59_999));
    expect_ok(s.store.prune(100)).await;
    assert!(s.job(running.id).await.live.result.is_some(), "not before it is due");
    s.advance(MILLI);
    let pruned = expect_ok(s.store.prune(100)).await;
    assert_eq!((pruned.jobs, pruned.others), (0, 1));
    assert_eq!(s.job(running.id).await.live.result, None);
}
