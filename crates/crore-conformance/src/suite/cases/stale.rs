//! A write based on an outdated version changes nothing, and returns `Stale`.

use crore_core::machine::{Change, JobEvent, Outcome, Report, RetryDirective};
use crore_core::push::GroupRef;
use crore_core::{Delivery, Job, JobId, Revision, Seen, State};
use crore_store::jobs::{Applied, StoreWrite};

use super::super::job_builder::{NewJobBuilder, SECOND, grouped, job, jobs};
use super::super::subject::{JobsSubject, change, expect_ok, failed, finished};

/// The change is refused, and the job is unchanged.
async fn changes_nothing(s: &JobsSubject, change: Change) {
    let before = s.find(change.id).await;
    let id = change.id;
    assert_eq!(s.apply(change).await, Applied::Stale);
    assert_eq!(s.find(id).await, before, "nothing was written");
}

pub(in super::super) async fn the_first_report_wins(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.done(&job).await;
    for outcome in [
        Outcome::Done { result: None },
        failed(RetryDirective::Never),
        Outcome::Interrupted,
        Outcome::Cancel,
        Outcome::Snooze(SECOND),
    ] {
        changes_nothing(s, change(&job, &finished(&job, outcome))).await;
    }
}

pub(in super::super) async fn one_of_two_concurrent_reports_wins(s: &JobsSubject) {
    for _ in 0..10 {
        let job = s.start(job("q")).await;
        let report = |outcome| finished(&job, outcome);
        let (done, dead) =
            (report(Outcome::Done { result: None }), report(failed(RetryDirective::Never)));
        let (a, b) = tokio::join!(s.apply_event(&job, &done), s.apply_event(&job, &dead));
        let expected = match (&a, &b) {
            (Applied::Yes(_), Applied::Stale) => State::Done,
            (Applied::Stale, Applied::Yes(_)) => State::Dead,
            both => panic!("exactly one wins, not {both:?}"),
        };
        assert_eq!(s.job(job.id).await.live.state, expected);
    }
}

pub(in super::super) async fn a_stale_delivery_changes_nothing(s: &JobsSubject) {
    let first = s.start(job("q")).await;
    s.apply_as_decided(&first, &JobEvent::Lapsed(first.live.delivery)).await;
    let done = || change(&first, &finished(&first, Outcome::Done { result: None }));
    changes_nothing(s, done()).await;
    let second = s.claim_one("q").await;
    changes_nothing(s, done()).await;
    s.done(&second).await;
    changes_nothing(s, done()).await;
}

pub(in super::super) async fn a_change_is_guarded_by_each_part_of_the_version_seen(
    s: &JobsSubject,
) {
    let running = s.start(job("q")).await;
    let ready = s.push(job("q")).await;
    for job in [running, s.job(ready).await] {
        let Seen { state, delivery, revision, .. } = job.seen();
        let good = change(&job, &JobEvent::Cancel);
        let other_state = if state == State::Running { State::Ready } else { State::Running };
        let with = |say: &dyn Fn(&mut Change)| {
            let mut change = good.clone();
            say(&mut change);
            change
        };
        changes_nothing(s, with(&|change| change.seen.state = other_state)).await;
        changes_nothing(s, with(&|change| change.seen.state = State::Done)).await;
        changes_nothing(s, with(&|change| change.seen.delivery = Delivery(delivery.0 + 1))).await;
        changes_nothing(s, with(&|change| change.seen.revision = Revision(revision.0 + 1))).await;
        assert_eq!(s.apply(good).await, Applied::Yes(Vec::new()));
    }
}

pub(in super::super) async fn a_change_of_a_missing_job_is_stale(s: &JobsSubject) {
    let id = s.push(job("q")).await;
    let job = s.job(id).await;
    let nobody = Job { id: JobId(id.0 + 1000), ..job };
    changes_nothing(s, change(&nobody, &JobEvent::Cancel)).await;
    changes_nothing(s, change(&nobody, &JobEvent::Delete)).await;
}

pub(in super::super) async fn a_claim_makes_older_decisions_stale(s: &JobsSubject) {
    let id = s.push(job("q")).await;
    let ready = s.job(id).await;
    let claimed = s.claim_one("q").await;
    for event in [JobEvent::Cancel, JobEvent::Delete] {
        changes_nothing(s, change(&ready, &event)).await;
    }
    assert_eq!(s.job(id).await, claimed);
}

pub(in super::super) async fn a_stop_request_may_come_between_claim_and_report(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.apply_as_decided(&job, &JobEvent::Cancel).await;
    let report = finished(&job, failed(RetryDirective::ByPolicy));
    changes_nothing(s, change(&job, &report)).await;
    let asked = s.job(job.id).await;
    assert!(asked.live.stop && asked.live.state == State::Running, "it runs until it stops");
    s.apply_as_decided(&asked, &report).await;
    assert_eq!(s.job(job.id).await.live.state, State::Cancelled, "decided again");
}

pub(in super::super) async fn one_stale_write_does_not_stop_the_others(s: &JobsSubject) {
    s.push_all(jobs("q", 4)).await;
    let running = s.claim(&["q"], 4).await;
    s.done(&running[1]).await;
    let done =
        |job: &Job| StoreWrite::Job(change(job, &finished(job, Outcome::Done { result: None })));
    let writes = running.iter().map(done).chain([done(&running[0])]).collect();
    let yes = || Applied::Yes(Vec::new());
    let answers = s.write_all(writes).await;
    assert_eq!(answers, [yes(), Applied::Stale, yes(), yes(), Applied::Stale]);
    for job in &running {
        assert_eq!(s.job(job.id).await.live.state, State::Done);
    }
}

/// A stale write adds no follow-up, no group count and no queue position.
pub(in super::super) async fn a_stale_write_has_no_effects(s: &JobsSubject) {
    let batch = grouped(vec![job("q").member(GroupRef::New(0))]);
    let group = s.batch(batch).await.groups[0];
    let job = s.claim_one("q").await;
    s.finish_as_decided(&job, Outcome::Interrupted).await;
    let report = Report { on_done: jobs("then", 1), ..Outcome::Done { result: None }.into() };
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
    changes_nothing(s, change(&job, &event)).await;
    let counts = expect_ok(s.store.group(group)).await.expect("the group");
    assert_eq!((counts.size, counts.ran, counts.succeeded), (1, 0, 0));
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
    assert_eq!(s.claim_ids(&["q"], 9).await, [job.id]);
}
