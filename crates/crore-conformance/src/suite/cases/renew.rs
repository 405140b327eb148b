//! Only the holder of a lease can extend it.

use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::{Delivery, Job, JobId, Span};
use crore_store::jobs::{Applied, Renew, Renewed};

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, jobs};
use super::super::subject::{JobsSubject, expect_ok};

fn until(s: &JobsSubject, span: Span) -> Renewed {
    Renewed::Until { until: s.now().after(span), stop: false }
}

pub(in super::super) async fn a_renewal_extends_a_lease_from_now(s: &JobsSubject) {
    let mut job = s.start(job("q").with(|job| job.spec.lease = Some(MINUTE))).await;
    s.advance(SECOND);
    assert_eq!(s.renew(&job, None).await, until(s, MINUTE), "as long as the job requests");
    job.live.lease_until = s.now().after(MINUTE);
    assert_eq!(s.job(job.id).await, job, "and nothing else changes");
    let long = Span::from_secs(500);
    assert_eq!(s.renew(&job, Some(long)).await, until(s, long), "as long as requested");
    job.live.lease_until = s.now().after(long);
    assert_eq!(s.job(job.id).await, job);
}

pub(in super::super) async fn a_lease_never_gets_shorter(s: &JobsSubject) {
    let job = s.start(job("q").with(|job| job.spec.lease = Some(MINUTE))).await;
    let end = Renewed::Until { until: job.live.lease_until, stop: false };
    assert_eq!(s.renew(&job, Some(SECOND)).await, end);
    assert_eq!(s.job(job.id).await, job);
}

pub(in super::super) async fn a_lease_that_ended_may_still_be_extended(s: &JobsSubject) {
    let job = s.start(job("q").with(|job| job.spec.lease = Some(SECOND))).await;
    s.advance(MINUTE);
    assert_eq!(s.renew(&job, None).await, until(s, SECOND));
    assert_eq!(s.job(job.id).await.live.lease_until, s.now().after(SECOND));
}

pub(in super::super) async fn a_renewal_reports_a_stop_request(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.apply_as_decided(&job, &JobEvent::Cancel).await;
    let answer = s.renew(&job, Some(MINUTE)).await;
    assert_eq!(answer, Renewed::Until { until: s.now().after(MINUTE), stop: true });
}

pub(in super::super) async fn a_renewal_makes_no_report_stale(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.renew(&job, Some(MINUTE)).await;
    let applied = s.finish(&job, Outcome::Done { result: None }).await;
    assert_eq!(applied, Applied::Yes(Vec::new()), "decided before the renewal");
}

pub(in super::super) async fn a_renewal_makes_a_lapse_stale(s: &JobsSubject) {
    let job = s.start(job("q").with(|job| job.spec.lease = Some(SECOND))).await;
    s.advance(MINUTE);
    let lapse = decide(&s.job(job.id).await, &JobEvent::Lapsed(job.live.delivery), 0);
    let lapse = lapse.expect("its lease has ended");
    assert_eq!(s.renew(&job, Some(MINUTE)).await, until(s, MINUTE));
    assert_eq!(s.apply(lapse).await, Applied::Stale, "decided before the renewal");
    let lapse = decide(&s.job(job.id).await, &JobEvent::Lapsed(job.live.delivery), 0);
    assert_eq!(s.apply(lapse.expect("decided")).await, Applied::Yes(Vec::new()), "and after it");
}

pub(in super::super) async fn a_lease_that_is_not_held_is_not_extended(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    s.finish_as_decided(&first, Outcome::Interrupted).await;
    assert_eq!(s.renew(&first, None).await, Renewed::Stale, "it was handed back");
    let second = s.claim_one("q").await;
    assert_eq!(s.renew(&first, None).await, Renewed::Stale, "another worker holds it");
    let next = with_delivery(&second, second.live.delivery.0 + 1);
    assert_eq!(s.renew(&next, None).await, Renewed::Stale, "the delivery does not exist yet");
    assert_eq!(s.job(second.id).await, second);
    s.done(&second).await;
    assert_eq!(s.renew(&second, None).await, Renewed::Stale, "it has ended");
}

pub(in super::super) async fn a_job_that_never_ran_has_no_lease(s: &JobsSubject) {
    let id = s.push(job("q")).await;
    let job = s.job(id).await;
    assert_eq!(job.live.delivery, Delivery::NONE);
    assert_eq!(s.renew(&job, None).await, Renewed::Stale);
    assert_eq!(s.job(id).await, job);
    let nobody = Job { id: JobId(id.0 + 1000), ..job };
    assert_eq!(s.renew(&nobody, None).await, Renewed::Stale);
}

pub(in super::super) async fn each_renewal_has_a_result_in_order(s: &JobsSubject) {
    s.push_all(jobs("q", 3)).await;
    let running = s.claim(&["q"], 3).await;
    s.done(&running[1]).await;
    let lease =
        |job: &Job, span| Renew { id: job.id, delivery: job.live.delivery, span: Some(span) };
    let leases = vec![
        lease(&running[2], MINUTE),
        lease(&running[1], MINUTE),
        lease(&running[0], MINUTE.times(2)),
    ];
    let answers = expect_ok(s.store.renew(leases)).await;
    assert_eq!(answers, [until(s, MINUTE), Renewed::Stale, until(s, MINUTE.times(2))]);
    assert_eq!(expect_ok(s.store.renew(Vec::new())).await, []);
}

fn with_delivery(job: &Job, delivery: u64) -> Job {
    let mut job = job.clone();
    job.live.delivery = Delivery(delivery);
    job
}
