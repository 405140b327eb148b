//! Reports and actions: which are accepted, and the resulting states.

use std::sync::Arc;

use crore::actions::{ActionResult, JobAction, JobChanges};
use crore::core::job::{
    DeliveryEnd, DependencyTarget, DueTime, EndReason, JobRetention, ResultRetention,
};
use crore::core::machine::{Outcome, Refusal, Report, RetryDirective};
use crore::core::push::{NewDependency, NewDependencyTarget};
use crore::core::retry::Retry;
use crore::core::{Code, Delivery, Encoding, Job, JobId, Payload, Span, State};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;
use crore::store::jobs::{Renew, Renewed};
use crore::store::{Memory, SystemClock};
use crore::{Engine, Error, Options, block_on};

use crate::test_engine::{
    DAY, HOUR, LEASE, MINUTE, SECOND, Task, TestEngine, ask, job, name, on_both, spec, wait_for,
};

const DONE: Outcome = Outcome::Done { result: None };

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.into(), detail: None, again: RetryDirective::ByPolicy }
}

fn state(finished: &FinishResult) -> Option<State> {
    match finished {
        FinishResult::Accepted { state, .. } => *state,
        other => panic!("the report does not count: {other:?}"),
    }
}

fn refused(refusal: Refusal, state: State) -> ActionResult {
    ActionResult::Refused { refusal, state: Some(state) }
}

fn renew(job: &Job) -> Renew {
    Renew { id: job.id, delivery: job.live.delivery, span: None }
}

#[test]
fn the_first_report_counts_and_the_second_is_stale() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let job = scene.fetch("q");
        assert_eq!(state(&scene.finish(&job, DONE)), Some(State::Done));
        assert_eq!(scene.finish(&job, failed("late")), FinishResult::Stale);
        assert_eq!(scene.state(id), State::Done);
    });
}

#[test]
fn results_of_two_reports_in_one_call_are_in_order() {
    let scene = TestEngine::memory();
    scene.push(job("q"));
    let job = scene.fetch("q");
    let both = vec![Finish::of(&job, DONE), Finish::of(&job, DONE)];
    let finished = block_on(scene.engine.deliveries().finish_all(both)).expect("reported");
    assert_eq!(state(&finished[0]), Some(State::Done));
    assert_eq!(finished[1], FinishResult::Stale);
}

#[test]
fn a_report_about_the_delivery_of_another_worker_changes_nothing() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let mut job = scene.fetch("q");
        job.live.delivery = Delivery(job.live.delivery.0 + 1);
        assert_eq!(scene.finish(&job, DONE), FinishResult::Stale);
        job.id = JobId(4711);
        assert_eq!(scene.finish(&job, DONE), FinishResult::NotFound);
        assert_eq!(scene.state(id), State::Running);
    });
}

#[test]
fn a_report_without_a_delivery_is_stale_where_reports_are_fenced() {
    let scene = TestEngine::memory();
    let id = scene.push(job("q"));
    scene.fetch("q");
    let report = Finish { job: id.into(), delivery: None, report: DONE.into() };
    assert_eq!(block_on(scene.engine.finish(report)).expect("answered"), FinishResult::Stale);
}

#[test]
fn reports_and_renewals_after_the_lease_are_stale() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let late = scene.fetch("q");
        scene.pass(LEASE);
        assert_eq!(scene.state(id), State::Ready);
        assert_eq!(scene.finish(&late, DONE), FinishResult::Stale);
        let renewed = block_on(scene.engine.renew(vec![renew(&late)])).expect("answered");
        assert_eq!(renewed, [Renewed::Stale]);
        let again = scene.fetch("q");
        assert_eq!((again.live.attempt, again.live.crashes), (1, 1));
        assert_eq!(scene.finish(&late, DONE), FinishResult::Stale);
        scene.done(&again);
    });
}

#[test]
fn a_lease_that_is_renewed_in_time_does_not_expire() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let job = scene.fetch("q");
        for _ in 0..10 {
            scene.pass(SECOND.times(20));
            let renewed = block_on(scene.engine.renew(vec![renew(&job)])).expect("answered");
            let until = scene.now().after(LEASE);
            assert_eq!(renewed, [Renewed::Until { until, stop: false }]);
        }
        assert_eq!(scene.state(id), State::Running);
        scene.pass(LEASE);
        assert_eq!(scene.state(id), State::Ready);
    });
}

#[test]
fn after_three_crashes_a_job_is_quarantined() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        for crash in 1..=3 {
            assert_eq!(scene.fetch("q").live.attempt, 1);
            scene.pass(LEASE);
            assert_eq!(scene.get(id).live.crashes, crash);
        }
        let dead = scene.get(id).live;
        assert_eq!((dead.state, dead.why), (State::Dead, Some(EndReason::Quarantined)));
    });
}

#[test]
fn a_snoozed_job_is_delivered_when_due_and_costs_no_attempt() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let finished = scene.finish(&scene.fetch("q"), Outcome::Snooze(MINUTE));
        assert_eq!(state(&finished), Some(State::Scheduled));
        scene.pass(Span::from_millis(59_999));
        assert_eq!(scene.try_fetch("q"), None);
        scene.pass(Span::from_millis(1));
        let again = scene.fetch("q");
        assert_eq!((again.id, again.live.attempt), (id, 1));
    });
}

#[test]
fn a_job_that_is_handed_back_keeps_its_position_and_its_attempts() {
    on_both(|scene| {
        let first = scene.push(job("q"));
        scene.clock.advance(SECOND);
        scene.push(job("q"));
        let finished = scene.finish(&scene.fetch("q"), Outcome::Interrupted);
        assert_eq!(state(&finished), Some(State::Ready));
        let again = scene.fetch("q");
        assert_eq!((again.id, again.live.attempt, again.live.crashes), (first, 1, 0));
        assert_eq!(again.live.history[0].ended, DeliveryEnd::Interrupted);
    });
}

#[test]
fn a_waiting_job_is_cancelled_at_once_and_only_once() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        assert_eq!(
            scene.act(id, &JobAction::Cancel),
            ActionResult::Applied(Some(State::Cancelled))
        );
        assert_eq!(scene.act(id, &JobAction::Cancel), refused(Refusal::Ended, State::Cancelled));
        assert_eq!(scene.try_fetch("q"), None);
        assert_eq!(scene.act(JobId(4711), &JobAction::Cancel), ActionResult::NotFound);
    });
}

#[test]
fn a_running_job_is_asked_to_stop_and_cancelled_when_it_reports() {
    on_both(|scene| {
        for outcome in [Outcome::Cancel, failed("stopped"), Outcome::Interrupted] {
            let id = scene.push(job("q"));
            let job = scene.fetch("q");
            assert_eq!(
                scene.act(id, &JobAction::Cancel),
                ActionResult::Applied(Some(State::Running))
            );
            assert_eq!(
                scene.act(id, &JobAction::Cancel),
                refused(Refusal::Nothing, State::Running)
            );
            let renewed = block_on(scene.engine.renew(vec![renew(&job)])).expect("answered");
            assert!(matches!(renewed[0], Renewed::Until { stop: true, .. }));
            assert_eq!(state(&scene.finish(&job, outcome)), Some(State::Cancelled));
            assert_eq!(scene.get(id).live.why, Some(EndReason::Asked));
        }
    });
}

#[test]
fn a_job_that_succeeds_after_a_stop_request_is_done() {
    let scene = TestEngine::memory();
    let id = scene.push(job("q"));
    let job = scene.fetch("q");
    scene.act(id, &JobAction::Cancel);
    assert_eq!(state(&scene.finish(&job, DONE)), Some(State::Done));
}

#[test]
fn a_lease_that_expires_after_a_stop_request_leaves_a_cancelled_job() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        scene.fetch("q");
        scene.act(id, &JobAction::Cancel);
        scene.pass(LEASE);
        assert_eq!(scene.state(id), State::Cancelled);
    });
}

#[test]
fn a_dead_job_retried_by_hand_starts_with_no_attempts() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let again = RetryDirective::Never;
        let outcome = Outcome::Failed { error: "no".into(), detail: None, again };
        assert_eq!(state(&scene.finish(&scene.fetch("q"), outcome)), Some(State::Dead));
        assert_eq!(scene.act(id, &JobAction::Retry), ActionResult::Applied(Some(State::Ready)));
        assert_eq!(scene.fetch("q").live.attempt, 1);
        assert_eq!(scene.act(id, &JobAction::Retry), refused(Refusal::Running, State::Running));
    });
}

#[test]
fn a_job_can_be_deleted_unless_it_runs() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let running = scene.fetch("q");
        assert_eq!(scene.act(id, &JobAction::Delete), refused(Refusal::Running, State::Running));
        scene.done(&running);
        assert_eq!(scene.act(id, &JobAction::Delete), ActionResult::Applied(None));
        assert_eq!(scene.act(id, &JobAction::Delete), ActionResult::NotFound);
    });
}

#[test]
fn a_change_returns_the_new_state_of_the_job() {
    on_both(|scene| {
        let mut later = job("q");
        later.due = DueTime::After(HOUR);
        let scheduled = scene.push(later);
        let sooner = JobAction::Change(JobChanges { priority: Some(-1), ..JobChanges::default() });
        assert_eq!(scene.act(scheduled, &sooner), ActionResult::Applied(Some(State::Scheduled)));
        let mut held = job("q");
        held.after.push(NewDependency {
            on: NewDependencyTarget::Job(scheduled),
            needs: crore::core::job::DependencyCondition::Success,
        });
        let held = scene.push(held);
        assert_eq!(scene.act(held, &sooner), ActionResult::Applied(Some(State::Waiting)));
        let now =
            JobAction::Change(JobChanges { due: Some(DueTime::Now), ..JobChanges::default() });
        assert_eq!(scene.act(scheduled, &now), ActionResult::Applied(Some(State::Ready)));
        assert_eq!(scene.state(held), State::Waiting);
        let far = JobAction::Change(JobChanges {
            due: Some(DueTime::After(DAY.times(4000))),
            ..JobChanges::default()
        });
        let refused = block_on(scene.engine.jobs().act(held.into(), &far));
        assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.field == "due"));
    });
}

fn timed(seconds: u64) -> crore::core::Spec {
    crore::core::Spec { timeout: Some(SECOND.times(seconds)), ..spec("q") }
}

#[test]
fn a_run_that_times_out_is_retried() {
    on_both(|scene| {
        let id = scene.push(timed(5));
        let slow = scene.fetch("q");
        scene.pass(Span::from_millis(4999));
        assert_eq!(scene.state(id), State::Running);
        scene.pass(Span::from_millis(1));
        let live = scene.get(id).live;
        assert_eq!((live.state, live.history[0].ended), (State::Scheduled, DeliveryEnd::TimedOut));
        assert_eq!(scene.finish(&slow, DONE), FinishResult::Stale);
    });
}

#[test]
fn a_stale_report_does_not_remove_the_timeout_of_a_run() {
    let scene = TestEngine::memory();
    let id = scene.push(timed(5));
    let mut stranger = scene.fetch("q");
    stranger.live.delivery = Delivery(4711);
    assert_eq!(scene.finish(&stranger, DONE), FinishResult::Stale);
    scene.pass(SECOND.times(5));
    assert_eq!(scene.get(id).live.history[0].ended, DeliveryEnd::TimedOut);
}

#[test]
fn a_run_that_was_asked_to_stop_still_has_its_timeout() {
    let scene = TestEngine::memory();
    let id = scene.push(timed(5));
    scene.fetch("q");
    scene.act(id, &JobAction::Cancel);
    scene.pass(SECOND.times(5));
    assert_eq!(scene.state(id), State::Cancelled);
}

#[test]
fn the_timeout_of_a_run_that_has_ended_does_not_end_the_next_one() {
    let scene = TestEngine::memory();
    let id = scene.push(timed(5));
    scene.finish(&scene.fetch("q"), Outcome::Interrupted);
    scene.pass(SECOND.times(4));
    scene.fetch("q");
    scene.pass(SECOND.times(4));
    assert_eq!(scene.state(id), State::Running);
    scene.pass(SECOND);
    assert_eq!(scene.get(id).live.history[0].ended, DeliveryEnd::TimedOut);
}

#[test]
fn follow_ups_are_pushed_by_the_outcome_they_belong_to() {
    on_both(|scene| {
        let report = |outcome: Outcome| Report {
            on_done: vec![job("good"), job("good")],
            on_dead: vec![job("bad")],
            ..outcome.into()
        };
        for (outcome, good, bad) in [(DONE, 2, 0), (failed("no"), 0, 1)] {
            let retry = Retry { max_attempts: Some(1), ..Retry::default() };
            let id = scene.push(crore::core::Spec { retry, ..spec("q") });
            let fetched = scene.fetch("q");
            let delivery = Some(fetched.live.delivery);
            let finish = Finish { job: id.into(), delivery, report: report(outcome) };
            let finished = block_on(scene.engine.finish(finish)).expect("reported");
            let FinishResult::Accepted { pushed, .. } = finished else { panic!("{finished:?}") };
            assert_eq!(pushed.len(), good + bad);
            assert_eq!(scene.fetch_n("good", 10).len(), good);
            assert_eq!(scene.fetch_n("bad", 10).len(), bad);
        }
    });
}

#[test]
fn a_follow_up_with_a_delay_is_delivered_when_due() {
    on_both(|scene| {
        scene.push(job("q"));
        let fetched = scene.fetch("q");
        let mut later = job("then");
        later.due = DueTime::After(MINUTE);
        let mut finish = Finish::of(&fetched, DONE);
        finish.report.on_done.push(later);
        block_on(scene.engine.finish(finish)).expect("reported");
        scene.pass(SECOND.times(59));
        assert_eq!(scene.try_fetch("then"), None);
        scene.pass(SECOND);
        assert!(scene.try_fetch("then").is_some());
    });
}

#[test]
fn a_report_with_an_invalid_follow_up_is_refused_with_the_field() {
    let scene = TestEngine::memory();
    let id = scene.push(job("q"));
    let mut finish = Finish::of(&scene.fetch("q"), DONE);
    finish.report.on_done = vec![job("then"), spec_with_lease(Span::from_millis(1)).into()];
    let refused = block_on(scene.engine.finish(finish)).expect_err("refused");
    assert_eq!(refused.code(), Code::LeaseRange);
    let Error::Invalid(invalid) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.field, "finishes[0].on-done[1].lease");
    assert_eq!(scene.state(id), State::Running, "nothing was written");
}

fn spec_with_lease(lease: Span) -> crore::core::Spec {
    crore::core::Spec { lease: Some(lease), ..spec("q") }
}

fn result(text: &str) -> Outcome {
    Outcome::Done { result: Some(Payload::new(Encoding::Text, text.as_bytes())) }
}

#[test]
fn a_read_once_result_is_read_once() {
    on_both(|scene| {
        let id = scene.push(crore::core::Spec { keep: ResultRetention::Once(HOUR), ..spec("q") });
        scene.finish(&scene.fetch("q"), result("r"));
        let read = || block_on(scene.engine.wait(id, HOUR)).expect("no error").expect("ended");
        let first = read();
        assert_eq!(first.state, Some(State::Done));
        assert_eq!(&*first.result.expect("a result").bytes, b"r");
        assert_eq!(read().result, None);
    });
}

#[test]
fn a_dropped_wait_for_an_end_takes_no_result() {
    on_both(|scene| {
        let id = scene.push(crore::core::Spec { keep: ResultRetention::Once(HOUR), ..spec("q") });
        let leaves = Task::waiting(scene.engine.results().wait_for_end(id, HOUR));
        let mut stays = Task::waiting(scene.engine.results().wait_for_end(id, HOUR));
        scene.finish(&scene.fetch("q"), result("r"));
        drop(leaves);
        let ended = stays.poll_if_woken().expect("a response").expect("no error").expect("ended");
        assert_eq!((ended.state, ended.result), (Some(State::Done), None));
        let take = || block_on(scene.engine.results().take(id)).expect("no error");
        assert_eq!(&*take().expect("a result").bytes, b"r");
        assert_eq!(take(), None);
    });
}

#[test]
fn a_result_can_be_read_during_its_retention() {
    on_both(|scene| {
        let id = scene.push(crore::core::Spec { keep: ResultRetention::For(MINUTE), ..spec("q") });
        scene.finish(&scene.fetch("q"), result("r"));
        let read = || block_on(scene.engine.wait(id, HOUR)).expect("no error").expect("ended");
        for _ in 0..3 {
            assert!(read().result.is_some());
        }
        scene.pass(MINUTE);
        assert_eq!(read().result, None);
    });
}

#[test]
fn a_waiting_caller_is_notified_of_every_kind_of_end() {
    let scene = TestEngine::memory();
    let wait = |id| Task::waiting(scene.engine.wait(id, HOUR));
    let done = scene.push(crore::core::Spec { keep: ResultRetention::For(HOUR), ..spec("q") });
    let mut waiter = wait(done);
    let fetched = scene.fetch("q");
    assert!(waiter.poll_if_woken().is_none(), "a start is not an end");
    scene.finish(&fetched, result("r"));
    let ended = waiter.poll_if_woken().expect("a response").expect("no error").expect("ended");
    assert_eq!((ended.id, ended.state), (done, Some(State::Done)));
    assert!(ended.result.is_some());

    let retry = Retry { max_attempts: Some(1), ..Retry::default() };
    let dead = scene.push(crore::core::Spec { retry, ..spec("q") });
    let mut waiter = wait(dead);
    scene.finish(&scene.fetch("q"), failed("broken"));
    let ended = waiter.poll_if_woken().expect("a response").expect("no error").expect("ended");
    assert_eq!((ended.state, ended.error.as_deref()), (Some(State::Dead), Some("broken")));

    let deleted = scene.push(job("q"));
    let mut waiter = wait(deleted);
    scene.act(deleted, &JobAction::Delete);
    let ended = waiter.poll_if_woken().expect("a response").expect("no error").expect("ended");
    assert_eq!((ended.state, ended.result), (None, None));
}

#[test]
fn a_wait_for_a_job_that_does_not_end_times_out() {
    let scene = TestEngine::memory();
    let id = scene.push(job("q"));
    let mut waiter = Task::waiting(scene.engine.wait(id, MINUTE));
    scene.pass(MINUTE);
    assert_eq!(waiter.poll_if_woken().expect("woken").expect("no error"), None);
    assert_eq!(block_on(scene.engine.wait(id, Span::ZERO)).expect("no error"), None);
    let absent = block_on(scene.engine.wait(JobId(4711), MINUTE));
    assert!(matches!(absent, Err(Error::NotFound { .. })));
}

#[test]
fn a_job_without_retention_is_removed_when_done() {
    on_both(|scene| {
        let id = scene.push(crore::core::Spec { retain: JobRetention::Nothing, ..spec("q") });
        assert_eq!(state(&scene.finish(&scene.fetch("q"), DONE)), None);
        assert_eq!(block_on(scene.engine.get(id)).expect("no error"), None);
    });
}

#[test]
fn reports_are_capped() {
    let scene = TestEngine::memory();
    let id = scene.push(job("q"));
    let fetched = scene.fetch("q");
    let large = Payload::new(Encoding::Bytes, vec![0; (1 << 20) + 1]);
    let report = Finish::of(&fetched, Outcome::Done { result: Some(large) });
    let refused = block_on(scene.engine.finish(report));
    let Err(Error::Invalid(invalid)) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.field, "finishes[0].result");
    let long: String = "ä".repeat(40_000);
    scene.finish(&fetched, failed(&long));
    let error = scene.get(id).live.history[0].error.clone().expect("an error");
    assert_eq!(error.len(), 64 << 10);
    assert!(long.starts_with(&*error));
    scene.pass(DAY);
    scene.finish(&scene.fetch("q"), Outcome::Snooze(Span::MAX));
    assert_eq!(scene.get(id).live.due, scene.now().after(DAY.times(3653)));
}

#[test]
fn a_batch_with_an_invalid_job_gets_one_result_per_job() {
    on_both(|scene| {
        let after = |n| NewDependency {
            on: NewDependencyTarget::Earlier(n),
            needs: crore::core::job::DependencyCondition::End,
        };
        let bad = spec_with_lease(Span::ZERO).into();
        let (mut by_bad, mut by_good, mut by_gone) = (job("q"), job("q"), job("q"));
        by_bad.after.push(after(0));
        by_good.after.push(after(2));
        let gone = NewDependencyTarget::Job(JobId(4711));
        by_gone.after.push(NewDependency { on: gone, ..after(0) });
        let mut by_broken = job("q");
        by_broken.after.push(after(4));
        let taken = scene.push_all(vec![bad, by_bad, job("q"), by_good, by_gone, by_broken]);
        assert!(
            matches!(&taken[0], PushResult::Invalid(invalid) if invalid.field == "jobs[0].lease")
        );
        assert_eq!(taken[1], PushResult::BrokenBy(0));
        let (PushResult::New(first), PushResult::New(second)) = (&taken[2], &taken[3]) else {
            panic!("{taken:?}")
        };
        assert_eq!(taken[4], PushResult::Broken(DependencyTarget::Job(JobId(4711))));
        assert_eq!(taken[5], PushResult::BrokenBy(4));
        assert_eq!(scene.state(*second), State::Waiting);
        let fetched = scene.fetch("q");
        assert_eq!(fetched.id, *first);
        scene.done(&fetched);
        assert_eq!(scene.fetch("q").id, *second);
    });
}

#[test]
fn notes_are_kept_only_for_the_current_delivery() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let fetched = scene.fetch("q");
        let (engine, delivery) = (&scene.engine, fetched.live.delivery);
        assert!(block_on(engine.deliveries().progress(id, delivery, 50, "half")).expect("noted"));
        assert!(block_on(engine.deliveries().line(id, delivery, "a line")).expect("noted"));
        assert!(
            !block_on(engine.deliveries().line(id, Delivery(4711), "a stranger's"))
                .expect("answered")
        );
        let refused = block_on(engine.deliveries().progress(id, delivery, 101, "more than all"));
        assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.field == "percent"));
        let notes = block_on(engine.jobs().notes(id)).expect("notes");
        let text: Arc<str> = "half".into();
        assert_eq!(notes.progress, Some((scene.now(), 50, text)));
        assert_eq!(notes.lines.len(), 1);
    });
}

#[test]
fn a_worker_that_disappears_loses_no_job() {
    let scene = TestEngine::memory();
    let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
    drop(waiter);
    let id = scene.push(job("q"));
    assert_eq!(scene.fetch("q").id, id);
    scene.pass(LEASE);
    assert_eq!(scene.fetch("q").id, id);
    assert_eq!(scene.get(id).live.worker, Some(name("w")));
}

#[test]
fn worker_descriptions_are_stored_unchanged_up_to_the_payload_cap() {
    on_both(|scene| {
        let engine = &scene.engine;
        block_on(engine.workers().set(name("w1"), "here", MINUTE)).expect("set");
        assert_eq!(block_on(engine.workers().list()).expect("workers").len(), 1);
        scene.pass(MINUTE);
        assert_eq!(
            block_on(engine.workers().list()).expect("workers").len(),
            0,
            "its worker stopped responding"
        );
        let long = "x".repeat((1 << 20) + 1);
        let refused = block_on(engine.workers().set(name("w1"), long, MINUTE));
        assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.field == "worker"));
    });
}

#[test]
fn batched_reports_count_although_another_engine_redelivered_their_job() {
    let clock = Arc::new(SystemClock);
    let store = Arc::new(Memory::new(clock.clone()));
    let [here, there] = [0, 1].map(|_| {
        Engine::on(Arc::<Memory>::clone(&store), clock.clone(), Options::default())
            .expect("created")
    });
    let fetch = |engine: &Engine, n| block_on(engine.fetch(Fetch { n, ..ask("q") })).expect("jobs");
    for _ in 0..2 {
        here.push("q", "x").wait().expect("pushed");
    }
    let first = fetch(&here, 2);
    assert_eq!(first.len(), 2);
    // The other engine expires the leases, so the jobs cached here are outdated.
    let gone = first.iter().map(|job| (job.id, job.live.delivery)).collect();
    block_on(there.deliveries().lapse(gone)).expect("given back");
    let again = fetch(&there, 2);
    let done = |job| Finish::of(job, DONE);
    let finished =
        block_on(here.deliveries().finish_all(again.iter().map(done).collect())).expect("received");
    assert!(
        finished.iter().all(|one| matches!(one, FinishResult::Accepted { .. })),
        "{finished:?}"
    );
}

#[test]
fn actions_by_hand_are_recorded_with_their_caller() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let plain = scene.push(job("plain"));
        let jobs = scene.engine.jobs().by("ada");
        let changes =
            JobChanges { queue: Some(name("slow")), priority: Some(5), due: Some(DueTime::Now) };
        block_on(jobs.act(id.into(), &JobAction::Change(changes))).expect("changed");
        scene.pass(SECOND);
        block_on(jobs.act(id.into(), &JobAction::Cancel)).expect("cancelled");
        scene.pass(SECOND);
        scene.act(id, &JobAction::Retry);
        // A refused action is not recorded.
        scene.act(id, &JobAction::Retry);
        let long = "é".repeat(1000);
        block_on(scene.engine.jobs().by(&long).act(id.into(), &JobAction::Cancel)).expect("acted");
        let actions = scene.get(id).live.actions;
        let shown: Vec<_> =
            actions[1..].iter().map(|one| (&*one.by, one.detail.as_deref())).collect();
        let edit = "queue slow, priority 5, due now";
        assert_eq!(shown, [("local", None), ("ada", None), ("ada", Some(edit))]);
        assert_eq!(actions[0].by.len(), 200);
        assert_eq!(actions[1].at, scene.now());
        assert_eq!(scene.restarted().get(id).live.actions, actions);
        assert!(scene.get(plain).live.actions.is_empty());
    });
}
