//! Decisions are written once, with all their effects.

use crore_core::job::{
    DeliveryEnd, DependencyCondition, DependencyTarget, JobRetention, Lapse, MAX_HISTORY,
    ReportDetails, ReportFencing,
};
use crore_core::machine::{JobEvent, NextRecord, Outcome, Report, RetryDirective};
use crore_core::push::NewDependencyTarget;
use crore_core::{Job, NewJob, Span, State};
use crore_store::jobs::{Applied, Pushed, StoreWrite};

use super::super::job_builder::{MINUTE, NewJobBuilder, SECOND, job, jobs};
use super::super::subject::{JobsSubject, change, failed, finished};

fn done_and(job: &Job, on_done: Vec<NewJob>) -> JobEvent {
    let report = Report { on_done, ..Outcome::Done { result: None }.into() };
    JobEvent::Finished { delivery: Some(job.live.delivery), report }
}

pub(in super::super) async fn a_done_report_ends_the_job(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.advance(SECOND);
    s.done(&job).await;
    let job = s.job(job.id).await;
    assert_eq!((job.live.state, job.live.ended_at), (State::Done, Some(s.now())));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_failed_job_comes_back_after_its_delay(s: &JobsSubject) {
    let job = s.start(job("q").attempts(3)).await;
    s.advance(SECOND);
    s.finish_as_decided(&job, failed(RetryDirective::After(MINUTE))).await;
    let live = s.job(job.id).await.live;
    assert_eq!((live.state, live.attempt), (State::Scheduled, 1));
    assert_eq!(live.due, s.now().after(MINUTE));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_job_is_dead_after_its_last_attempt(s: &JobsSubject) {
    s.push(job("q").attempts(3)).await;
    for attempt in 1..=3 {
        let job = s.claim_one("q").await;
        assert_eq!(job.live.attempt, attempt);
        s.finish_as_decided(&job, failed(RetryDirective::After(Span::ZERO))).await;
        let state = if attempt < 3 { State::Ready } else { State::Dead };
        assert_eq!(s.job(job.id).await.live.state, state);
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_dead_job_retried_by_hand_starts_again(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.fail_for_good(&job).await;
    s.advance(SECOND);
    s.apply_to_current(job.id, &JobEvent::Retry).await;
    let again = s.claim_one("q").await;
    assert_eq!((again.id, again.live.attempt, again.live.due), (job.id, 1, s.now()));
    assert!(again.live.delivery > job.live.delivery, "the fencing token does not restart");
}

pub(in super::super) async fn a_snoozed_job_costs_no_attempt(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    s.finish_as_decided(&job, Outcome::Snooze(MINUTE)).await;
    let live = s.job(job.id).await.live;
    assert_eq!((live.state, live.attempt), (State::Scheduled, 0));
    assert_eq!(live.due, s.now().after(MINUTE));
}

pub(in super::super) async fn a_lapse_has_the_effect_that_the_job_specifies(s: &JobsSubject) {
    let lapse = |lapse| job("q").with(|job| job.spec.lapse = lapse);
    for (new, state, attempt, crashes) in [
        (lapse(Lapse::Crash { quarantine: None }), State::Ready, 0, 1),
        (lapse(Lapse::Crash { quarantine: Some(1) }), State::Dead, 0, 1),
        (lapse(Lapse::Failure), State::Scheduled, 1, 0),
        (lapse(Lapse::Failure).attempts(1), State::Dead, 1, 0),
        (lapse(Lapse::Again), State::Ready, 1, 0),
    ] {
        let job = s.start(new).await;
        s.apply_as_decided(&job, &JobEvent::Lapsed(job.live.delivery)).await;
        let live = s.job(job.id).await.live;
        let what = job.spec.lapse;
        assert_eq!((live.state, live.attempt, live.crashes), (state, attempt, crashes), "{what:?}");
        assert_eq!(live.history[0].ended, DeliveryEnd::Lapsed);
        if live.state == State::Ready {
            s.apply_to_current(job.id, &JobEvent::Delete).await;
        }
    }
}

pub(in super::super) async fn every_other_end_is_written_as_decided(s: &JobsSubject) {
    let slow = s.start(job("q").attempts(2)).await;
    s.apply_as_decided(&slow, &JobEvent::TimedOut(slow.live.delivery)).await;
    let forgotten = s.start(job("q").with(|job| job.spec.lease = None)).await;
    s.apply_as_decided(&forgotten, &JobEvent::Delivered(forgotten.live.delivery)).await;
    let given_up = s.start(job("q")).await;
    s.finish_as_decided(&given_up, Outcome::Cancel).await;
    let policy = s.start(job("q")).await;
    s.finish_as_decided(&policy, failed(RetryDirective::ByPolicy)).await;
}

pub(in super::super) async fn a_history_is_newest_first_and_bounded(s: &JobsSubject) {
    s.push(job("q")).await;
    let mut deliveries = Vec::new();
    let mut last = None;
    for _ in 0..MAX_HISTORY + 2 {
        let job = s.claim_one("q").await;
        deliveries.insert(0, job.live.delivery);
        s.advance(SECOND);
        s.finish_as_decided(&job, Outcome::Interrupted).await;
        last = Some(job.id);
    }
    let history = s.job(last.expect("it ran")).await.live.history;
    let kept: Vec<_> = history.iter().map(|attempt| attempt.delivery).collect();
    assert_eq!(kept, deliveries[..MAX_HISTORY]);
    assert_eq!(history[0].ended_at, s.now());
}

pub(in super::super) async fn a_history_keeps_the_details_of_reports(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    let details = ReportDetails {
        finished_at: Some(s.now().before(MINUTE)),
        reason: Some("it's \"late\"".into()),
    };
    let failure = failed(RetryDirective::After(Span::ZERO));
    let report = Report { details: details.clone(), ..failure.into() };
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
    s.apply_as_decided(&job, &event).await;
    let again = s.claim_one("q").await;
    assert_eq!(again.live.history[0].details, details);
    s.done(&again).await;
    let history = s.job(job.id).await.live.history;
    let kept: Vec<_> = history.iter().map(|attempt| attempt.details.clone()).collect();
    assert_eq!(kept, [ReportDetails::default(), details]);
}

pub(in super::super) async fn a_cancelled_job_is_not_delivered(s: &JobsSubject) {
    let ready = s.push(job("q")).await;
    let later = s.push(job("q").later(SECOND)).await;
    for id in [ready, later] {
        s.apply_to_current(id, &JobEvent::Cancel).await;
        assert_eq!(s.job(id).await.live.state, State::Cancelled);
    }
    s.advance(MINUTE);
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_deleted_job_is_removed(s: &JobsSubject) {
    let pushed = s.push_all(vec![job("q"), job("q").later(SECOND), job("q").priority(-1)]).await;
    let dead = s.claim_one("q").await;
    s.fail_for_good(&dead).await;
    for id in pushed {
        let job = s.job(id).await;
        s.apply_as_decided(&job, &JobEvent::Delete).await;
        assert_eq!(s.apply_event(&job, &JobEvent::Delete).await, Applied::Stale, "gone once");
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_job_that_retains_nothing_is_removed_when_done(s: &JobsSubject) {
    let job = s.start(job("q").with(|job| job.spec.retain = JobRetention::Nothing)).await;
    s.done(&job).await;
    assert_eq!(s.find(job.id).await, None);
}

pub(in super::super) async fn follow_ups_are_pushed_once_and_know_their_parent(s: &JobsSubject) {
    let parent = s.start(job("q")).await;
    let event = done_and(&parent, vec![job("then").priority(1), job("then").later(SECOND)]);
    let pushed = s.apply_as_decided(&parent, &event).await;
    assert_eq!(s.apply_event(&parent, &event).await, Applied::Stale);
    let children: Vec<_> = pushed.iter().filter_map(|answer| answer.id()).collect();
    assert_eq!(children.len(), 2, "{pushed:?}");
    for (n, id) in (0..).zip(&children) {
        assert_eq!(s.job(*id).await.spec.parent, Some((parent.id, n)));
    }
    assert_eq!(s.job(children[1]).await.live.due, s.now().after(SECOND));
    assert_eq!(s.claim_ids(&["then"], 9).await, [children[0]]);
}

pub(in super::super) async fn a_follow_up_sees_its_parent_as_the_write_leaves_it(s: &JobsSubject) {
    let then = |id| job("then").after(NewDependencyTarget::Job(id), DependencyCondition::End);
    let kept = s.start(job("q")).await;
    let pushed = s.apply_as_decided(&kept, &done_and(&kept, vec![then(kept.id)])).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [pushed[0].id().expect("it is stored")]);
    let removed = s.start(job("q").with(|job| job.spec.retain = JobRetention::Nothing)).await;
    let pushed = s.apply_as_decided(&removed, &done_and(&removed, vec![then(removed.id)])).await;
    assert_eq!(
        pushed,
        [Pushed::Broken(DependencyTarget::Job(removed.id))],
        "there is nothing to wait for"
    );
}

pub(in super::super) async fn follow_ups_are_pushed_only_for_their_end(s: &JobsSubject) {
    s.push_all(jobs("q", 2)).await;
    let running = s.claim(&["q"], 2).await;
    let report = |outcome: Outcome| Report {
        on_done: jobs("done", 1),
        on_dead: jobs("dead", 1),
        ..outcome.into()
    };
    let event = |job: &Job, outcome| JobEvent::Finished {
        delivery: Some(job.live.delivery),
        report: report(outcome),
    };
    let snoozed = event(&running[0], Outcome::Snooze(SECOND));
    assert_eq!(s.apply_as_decided(&running[0], &snoozed).await, []);
    let dead = event(&running[1], failed(RetryDirective::Never));
    assert_eq!(s.apply_as_decided(&running[1], &dead).await.len(), 1);
    assert_eq!(s.claim_ids(&["done"], 9).await, []);
    assert_eq!(s.claim_one("dead").await.spec.parent, Some((running[1].id, 0)));
}

pub(in super::super) async fn a_follow_up_may_be_a_duplicate(s: &JobsSubject) {
    let keyed = || job("then").client("native", "mine");
    let first = s.push(keyed()).await;
    let parent = s.start(job("q")).await;
    let pushed = s.apply_as_decided(&parent, &done_and(&parent, vec![keyed(), job("then")])).await;
    assert_eq!(pushed[0], Pushed::Duplicate(first));
    assert!(matches!(pushed[1], Pushed::New(_)), "{pushed:?}");
    assert_eq!(s.job(first).await.spec.parent, None);
}

pub(in super::super) async fn any_delivery_may_report_if_the_job_allows_it(s: &JobsSubject) {
    let any = || job("q").with(|job| job.spec.reports = ReportFencing::Any);
    for lapse in [Lapse::Again, Lapse::Failure] {
        let job = s.start(any().with(|job| job.spec.lapse = lapse)).await;
        s.apply_as_decided(&job, &JobEvent::Lapsed(job.live.delivery)).await;
        let waits = s.job(job.id).await;
        s.apply_as_decided(&waits, &finished(&job, Outcome::Done { result: None })).await;
        assert_eq!(s.job(job.id).await.live.state, State::Done);
        assert_eq!(s.claim_ids(&["q"], 9).await, [], "it no longer waits");
    }
}

pub(in super::super) async fn a_job_keeps_that_it_was_reported(s: &JobsSubject) {
    let any = job("q").with(|job| {
        (job.spec.reports, job.spec.lapse) = (ReportFencing::Any, Lapse::Again);
    });
    let job = s.start(any).await;
    s.apply_as_decided(&job, &JobEvent::Lapsed(job.live.delivery)).await;
    let waits = s.job(job.id).await;
    assert!(!waits.live.is_reported());
    s.apply_as_decided(&waits, &finished(&job, failed(RetryDirective::ByPolicy))).await;
    let reported = s.job(job.id).await;
    assert!(reported.live.is_reported());
    assert_eq!(
        (reported.live.state, reported.live.due, reported.live.attempt),
        (waits.live.state, waits.live.due, 1)
    );
    assert_eq!(s.claim_ids(&["q"], 9).await, [job.id], "it is still ready");
}

pub(in super::super) async fn a_scheduled_job_may_be_run_now(s: &JobsSubject) {
    let id = s.push(job("q").later(MINUTE)).await;
    s.apply_to_current(id, &JobEvent::Retry).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
}

/// The second write is based on the result of the first.
pub(in super::super) async fn writes_of_a_batch_apply_in_order(s: &JobsSubject) {
    let job = s.start(job("q")).await;
    let first = change(&job, &finished(&job, failed(RetryDirective::Never)));
    let mut then = job.clone();
    if let NextRecord::Live(next) = &first.next {
        then.apply(next, s.now());
    }
    let second = change(&then, &JobEvent::Retry);
    let answers = s.write_all(vec![StoreWrite::Job(first), StoreWrite::Job(second)]).await;
    assert_eq!(answers, [Applied::Yes(Vec::new()), Applied::Yes(Vec::new())]);
    assert_eq!(s.job(job.id).await.live.state, State::Ready);
    assert_eq!(s.write_all(Vec::new()).await, []);
}
