//! A permit comes back on every way out of a run, and once.

use crore_core::job::Lapse;
use crore_core::machine::{Again, Event, Outcome};
use crore_core::{Job, Span, State};
use crore_store::jobs::Applied;

use super::super::draft::{Draft, job};
use super::super::subject::{Few, failed, finished};

/// Whatever ends a run, the next one finds a permit; and there is never more than one.
async fn comes_back(s: &Few, end: impl Fn(&Job) -> Event) {
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
            s.happens(&running, &event).await;
            assert_eq!(s.tell(&running, &event).await, Applied::Stale, "and not a second time");
            if s.find(id).await.is_none_or(|job| job.live.state.has_ended()) {
                break;
            }
            s.pass(Span::from_secs(1));
            if s.job(id).await.live.state == State::Scheduled {
                s.happens_to(id, &Event::Retry).await;
            }
        }
        if let Some(job) = s.find(id).await {
            s.happens(&job, &Event::Delete).await;
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

pub(in super::super) async fn a_permit_comes_back_when_a_job_is_done(s: &Few) {
    comes_back(s, |job| finished(job, Outcome::Done { result: None })).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_fails(s: &Few) {
    comes_back(s, |job| finished(job, failed(Again::After(Span::ZERO)))).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_waits_to_be_retried(s: &Few) {
    comes_back(s, |job| finished(job, failed(Again::After(Span::from_secs(9))))).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_dies(s: &Few) {
    comes_back(s, |job| finished(job, failed(Again::Never))).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_is_snoozed(s: &Few) {
    comes_back(s, |job| finished(job, Outcome::Snooze(Span::ZERO))).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_is_handed_back(s: &Few) {
    comes_back(s, |job| finished(job, Outcome::Interrupted)).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_is_given_up(s: &Few) {
    comes_back(s, |job| finished(job, Outcome::Cancel)).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_lease_lapses(s: &Few) {
    comes_back(s, |job| Event::Lapsed(job.live.delivery)).await;
}

pub(in super::super) async fn a_permit_comes_back_when_a_job_times_out(s: &Few) {
    comes_back(s, |job| Event::TimedOut(job.live.delivery)).await;
}

pub(in super::super) async fn a_permit_is_held_until_a_cancelled_job_has_stopped(s: &Few) {
    s.define_limit("x", "concurrency 1").await;
    let running = s.start(job("q").limit("x")).await;
    let waits = s.push(job("q").limit("x")).await;
    s.happens(&running, &Event::Cancel).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "it still runs");
    let asked = s.job(running.id).await;
    s.ends(&asked, Outcome::Cancel).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [waits]);
}

pub(in super::super) async fn what_never_ran_gives_no_permit_back(s: &Few) {
    s.define_limit("x", "concurrency 1").await;
    s.start(job("q").limit("x")).await;
    for event in [Event::Cancel, Event::Delete] {
        let id = s.push(job("q").limit("x")).await;
        s.happens_to(id, &event).await;
    }
    s.push(job("q").limit("x")).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}
