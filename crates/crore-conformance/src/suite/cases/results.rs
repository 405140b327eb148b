//! Results are kept as the job says, and one that is taken is taken once.

use crore_core::job::{Keep, Retain};
use crore_core::machine::{Again, Event, Outcome, Refusal, decide};
use crore_core::{Encoding, Job, JobId, NewJob, Payload, Span};
use crore_store::jobs::Applied;

use super::super::draft::{Draft, MILLI, MINUTE, job};
use super::super::subject::{Few, Whole, got};

fn result() -> Payload {
    Payload::new(Encoding::Bytes, vec![0, 255, 0])
}

/// A job that was done with a result.
async fn done_with(s: &Few, new: NewJob) -> JobId {
    let job = s.start(new).await;
    s.ends(&job, Outcome::Done { result: Some(result()) }).await;
    job.id
}

fn shown(job: &Job, s: &Few) -> Option<Payload> {
    job.result_at(s.now()).map(|kept| kept.payload.clone())
}

pub(in super::super) async fn a_result_is_kept_for_its_time(s: &Few) {
    let id = done_with(s, job("q").keep(Keep::For(MINUTE))).await;
    let kept = s.job(id).await.live.result.expect("it is kept");
    assert_eq!((kept.payload, kept.until, kept.once), (result(), s.now().after(MINUTE), false));
    s.pass(Span::from_millis(59_999));
    assert_eq!(shown(&s.job(id).await, s), Some(result()));
    s.pass(MILLI);
    assert_eq!(shown(&s.job(id).await, s), None);
}

pub(in super::super) async fn a_result_that_nobody_wants_is_not_kept(s: &Few) {
    let id = done_with(s, job("q").keep(Keep::Discard)).await;
    assert_eq!(s.job(id).await.live.result, None);
}

pub(in super::super) async fn a_large_result_is_kept_exactly(s: &Few) {
    let running = s.start(job("q").keep(Keep::For(MINUTE))).await;
    let large: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let large = Payload::new(Encoding::Bytes, large);
    s.ends(&running, Outcome::Done { result: Some(large.clone()) }).await;
    assert!(shown(&s.job(running.id).await, s) == Some(large), "every byte of it");
}

pub(in super::super) async fn of_two_takers_one_gets_the_result(s: &Few) {
    let id = done_with(s, job("q").keep(Keep::Once(MINUTE))).await;
    let seen = s.job(id).await;
    assert!(seen.live.result.as_ref().is_some_and(|kept| kept.once), "to be read once");
    let take = Event::TakeResult;
    let (a, b) = tokio::join!(s.tell(&seen, &take), s.tell(&seen, &take));
    let wins = [a, b].iter().filter(|answer| **answer != Applied::Stale).count();
    assert_eq!(wins, 1, "one wins");
    let after = s.job(id).await;
    assert_eq!(after.live.result, None);
    assert_eq!(decide(&after, &take, 0), Err(Refusal::Nothing));
}

pub(in super::super) async fn a_job_kept_for_its_result_is_gone_when_that_is_taken(s: &Few) {
    let new = job("q").keep(Keep::Once(MINUTE)).with(|job| job.spec.retain = Retain::Nothing);
    let id = done_with(s, new).await;
    s.happens_to(id, &Event::TakeResult).await;
    assert_eq!(s.find(id).await, None);
}

pub(in super::super) async fn a_dead_job_keeps_what_it_died_of(s: &Few) {
    let running = s.start(job("q").keep(Keep::For(MINUTE))).await;
    let detail = Some(result());
    s.ends(&running, Outcome::Failed { error: "no".into(), detail, again: Again::Never }).await;
    let dead = s.job(running.id).await;
    assert_eq!(shown(&dead, s), Some(result()));
    assert_eq!(dead.live.history[0].error.as_deref(), Some("no"));
    s.happens(&dead, &Event::Retry).await;
    assert_eq!(s.job(dead.id).await.live.result, None, "until it is tried again");
}

pub(in super::super) async fn a_result_whose_time_is_over_is_pruned_and_its_job_stays(s: &Whole) {
    let running = s.start(job("q").keep(Keep::For(MINUTE))).await;
    s.ends(&running, Outcome::Done { result: Some(result()) }).await;
    s.pass(Span::from_millis(59_999));
    got(s.store.prune(100)).await;
    assert!(s.job(running.id).await.live.result.is_some(), "not before its time");
    s.pass(MILLI);
    let pruned = got(s.store.prune(100)).await;
    assert_eq!((pruned.jobs, pruned.others), (0, 1));
    assert_eq!(s.job(running.id).await.live.result, None);
}
