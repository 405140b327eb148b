//! Lost answers: the caller went away, or the store returned an error, although the call took effect. Waiting
//! callers, timers and caches must still observe the change.

use crore::actions::{JobAction, JobChanges};
use crore::core::handler::BUILT_IN_ID;
use crore::core::job::{DependencyCondition, DueTime};
use crore::core::limit::Limit;
use crore::core::machine::Outcome;
use crore::core::push::{NewDependency, NewDependencyTarget};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, Handler, JobId, NewJob, Spec, State};
use crore::events::EventType;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::views::StatStep;
use crore::{Error, block_on};

use crate::events::drain_events;
use crate::faulty_store::{FaultyStore, Verb};
use crate::handlers::handler;
use crate::test_engine::{
    DAY, HOUR, LEASE, MINUTE, SECOND, Task, TestEngine, ask, code, job, name, spec, wait_for,
};

#[test]
fn a_claim_dropped_before_its_response_loses_no_job() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(job("q"));
    faulty.lose_answer_once(Verb::Claim);
    drop(Task::waiting(scene.engine.fetch(ask("q"))));
    assert_eq!(scene.state(id), State::Running);
    scene.settle();
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Ready);
}

#[test]
fn a_job_of_a_dropped_push_runs_when_due() {
    let (scene, faulty) = FaultyStore::test_engine();
    let mut later = job("q");
    later.due = DueTime::After(MINUTE);
    faulty.lose_answer_once(Verb::Push);
    drop(Task::waiting(scene.engine.push_all(later.into())));
    scene.pass(MINUTE);
    assert!(scene.try_fetch("q").is_some());
}

#[test]
fn a_report_with_a_lost_response_notifies_waiting_callers() {
    let (scene, faulty) = FaultyStore::test_engine();
    for is_dropped in [true, false] {
        let id = scene.push(job("q"));
        let fetched = scene.fetch("q");
        let mut held = job("then");
        held.after.push(NewDependency {
            on: NewDependencyTarget::Job(id),
            needs: DependencyCondition::Success,
        });
        let held = scene.push(held);
        let mut waiter = Task::waiting(scene.engine.wait(id, HOUR));
        let mut drain = Task::waiting(scene.engine.queues().drain(name("q"), HOUR));
        let mut listener = scene.engine.listen();
        let report = Finish::of(&fetched, Outcome::Cancel);
        if is_dropped {
            faulty.lose_answer_once(Verb::Apply);
            drop(Task::waiting(scene.engine.finish(report)));
        } else {
            faulty.answer_with_error_once(Verb::Apply);
            assert_eq!(code(scene.engine.finish(report)), Some(Code::Unavailable));
        }
        assert_eq!(scene.state(id), State::Cancelled);
        scene.pass(SECOND);
        let ended = waiter.poll_if_woken().expect("a response").expect("no error").expect("ended");
        assert_eq!(ended.state, Some(State::Cancelled));
        assert!(drain.poll_if_woken().expect("a response").expect("no error"));
        assert!(drain_events(&mut listener).contains(&(id, EventType::Became(State::Cancelled))));
        assert_eq!(scene.state(held), State::Cancelled, "its dependants are cancelled");
        block_on(scene.engine.queues().resume(name("q"))).expect("resumed");
    }
}

#[test]
fn a_retry_is_delivered_when_due_although_the_report_response_is_lost() {
    let (scene, faulty) = FaultyStore::test_engine();
    scene.push(job("q"));
    let fetched = scene.fetch("q");
    faulty.lose_answer_once(Verb::Apply);
    drop(Task::waiting(scene.engine.finish(Finish::of(&fetched, Outcome::Snooze(HOUR)))));
    scene.settle();
    scene.pass(HOUR);
    assert!(scene.try_fetch("q").is_some());
}

#[test]
fn a_limit_or_schedule_whose_response_is_lost_applies() {
    let (scene, faulty) = FaultyStore::test_engine();
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    faulty.lose_answer_once(Verb::Define);
    let set = scene.engine.schedules().set(name("s"), timing, Missed::Skip, job("q"));
    drop(Task::waiting(set));
    scene.settle();
    scene.pass(MINUTE);
    assert_eq!(scene.fetch_n("q", 10).len(), 1);
    let limit = Limit::parse("concurrency 0").expect("a limit");
    faulty.lose_answer_once(Verb::Define);
    drop(Task::waiting(scene.engine.limits().set(name("l"), limit)));
    scene.settle();
    scene.push(job("elsewhere"));
    assert_eq!(scene.try_fetch("elsewhere"), None);
}

/// A change of a definition takes effect, and its answer is lost.
fn lose_define_answer<T>(
    faulty: &FaultyStore,
    is_dropped: bool,
    change: impl Future<Output = Result<T, Error>>,
) {
    lose_answer(faulty, Verb::Define, is_dropped, change);
}

/// A call takes effect, and its answer is lost.
fn lose_answer<T>(
    faulty: &FaultyStore,
    verb: Verb,
    is_dropped: bool,
    change: impl Future<Output = Result<T, Error>>,
) {
    if is_dropped {
        faulty.lose_answer_once(verb);
        drop(Task::waiting(change));
    } else {
        faulty.answer_with_error_once(verb);
        assert_eq!(code(change), Some(Code::Unavailable));
    }
}

#[test]
fn limits_that_may_have_been_changed_are_read_again_before_the_next_push() {
    for is_dropped in [true, false] {
        let (scene, faulty) = FaultyStore::test_engine();
        let none = Limit::parse("concurrency 0").expect("a limit");
        lose_define_answer(&faulty, is_dropped, scene.engine.limits().set(name("l"), none));
        // Upkeep has not run yet.
        let held = scene.push(job("q"));
        assert_eq!(scene.get(held).spec.limits.len(), 1);
        lose_define_answer(&faulty, is_dropped, scene.engine.limits().remove(name("l")));
        let free = scene.push(job("q"));
        assert_eq!(scene.get(free).spec.limits, []);
    }
}

#[test]
fn a_push_is_refused_while_the_limits_cannot_be_read() {
    let (scene, faulty) = FaultyStore::test_engine();
    let none = Limit::parse("concurrency 0").expect("a limit");
    lose_define_answer(&faulty, false, scene.engine.limits().set(name("l"), none));
    faulty.err_once(Verb::Entries);
    assert_eq!(code(scene.engine.push_all(job("q").into())), Some(Code::Unavailable));
    let held = scene.push(job("q"));
    assert_eq!(scene.get(held).spec.limits.len(), 1);
}

#[test]
fn dropped_upkeep_is_still_due() {
    let (scene, faulty) = FaultyStore::test_engine();
    let mut later = job("q");
    later.due = DueTime::After(MINUTE);
    scene.push(later);
    let running = scene.push(Spec { lease: Some(MINUTE), ..spec("other") });
    scene.fetch("other");
    scene.clock.advance(MINUTE);
    faulty.hold(Verb::Promote);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    faulty.release(Verb::Promote);
    assert!(scene.engine.upkeep().due_at() <= scene.now());
    scene.settle();
    assert!(scene.try_fetch("q").is_some());
    assert_eq!(scene.state(running), State::Ready);
}

#[test]
fn a_handler_whose_response_is_lost_reaches_waiting_fetches_at_once() {
    let host = || Fetch { handled: Some(Vec::new()), ..wait_for("q") };
    // A built-in handler allocates no id, so it is set in one write.
    let handler = Handler { id: BUILT_IN_ID, ..handler() };
    for is_dropped in [true, false] {
        let (scene, faulty) = FaultyStore::test_engine();
        scene.push(job("q"));
        let mut waits = Task::waiting(scene.engine.fetch(host()));
        lose_define_answer(
            &faulty,
            is_dropped,
            scene.engine.handlers().set(name("work"), handler.clone()),
        );
        let jobs = waits.poll_if_woken().expect("it was woken").expect("fetched");
        assert_eq!(jobs.len(), 1);
    }
    let (scene, faulty) = FaultyStore::test_engine();
    scene.push(job("q"));
    let mut waits = Task::waiting(scene.engine.fetch(host()));
    let holds = faulty.clone();
    faulty.after_next_call(Verb::Define, move || holds.hold(Verb::Entries));
    drop(Task::waiting(scene.engine.handlers().set(name("work"), handler)));
    faulty.release(Verb::Entries);
    let jobs = waits.poll_if_woken().expect("it was woken").expect("fetched");
    assert_eq!(jobs.len(), 1, "the caller was dropped before it read the handlers again");
}

/// A call of upkeep takes effect, and its answer is lost.
fn lose_upkeep_answer(scene: &TestEngine, faulty: &FaultyStore, verb: Verb, is_dropped: bool) {
    lose_answer(faulty, verb, is_dropped, scene.engine.upkeep().run_once());
    scene.pass(SECOND);
}

#[test]
fn a_scheduled_job_is_delivered_when_due_although_the_push_response_is_lost() {
    for is_dropped in [true, false] {
        let (scene, faulty) = FaultyStore::test_engine();
        let timing = Timing::parse("timing", "every 24h").expect("a timing");
        let later = NewJob { due: DueTime::After(HOUR), ..job("q") };
        let set = scene.engine.schedules().set(name("s"), timing, Missed::Once, later);
        block_on(set).expect("set");
        scene.settle();
        scene.clock.advance(DAY);
        lose_upkeep_answer(&scene, &faulty, Verb::Apply, is_dropped);
        assert_eq!(scene.try_fetch("q"), None);
        scene.pass(HOUR);
        assert!(scene.try_fetch("q").is_some());
    }
}

/// A job that depends on another one.
fn after(id: JobId) -> NewJob {
    let mut held = job("held");
    held.after.push(NewDependency {
        on: NewDependencyTarget::Job(id),
        needs: DependencyCondition::Success,
    });
    held
}

#[test]
fn a_held_job_is_delivered_when_due_although_the_delay_response_is_lost() {
    for is_dropped in [true, false] {
        let (scene, faulty) = FaultyStore::test_engine();
        let first = scene.push(job("q"));
        let held = scene.push(after(first));
        let later = JobAction::Change(JobChanges {
            due: Some(DueTime::After(HOUR)),
            ..JobChanges::default()
        });
        lose_answer(&faulty, Verb::Apply, is_dropped, scene.engine.jobs().act(held.into(), &later));
        scene.pass(SECOND);
        let first = scene.fetch("q");
        scene.done(&first);
        scene.settle();
        assert_eq!(scene.state(held), State::Scheduled);
        scene.pass(HOUR);
        assert_eq!(scene.state(held), State::Ready);
    }
}

#[test]
fn a_job_handed_back_with_a_lost_response_is_under_the_current_limits() {
    for is_dropped in [true, false] {
        let (scene, faulty) = FaultyStore::test_engine();
        scene.push(job("q"));
        let fetched = scene.fetch("q");
        let none = Limit::parse("concurrency 0").expect("a limit");
        block_on(scene.engine.limits().set(name("l"), none)).expect("set");
        scene.settle();
        let report = Finish::of(&fetched, Outcome::Interrupted);
        lose_answer(&faulty, Verb::Apply, is_dropped, scene.engine.finish(report));
        scene.pass(SECOND);
        assert_eq!(scene.try_fetch("q"), None);
    }
}

#[test]
fn a_limit_is_applied_to_jobs_although_upkeep_was_dropped() {
    let (scene, faulty) = FaultyStore::test_engine();
    scene.push(job("q"));
    let fetched = scene.fetch("q");
    let none = Limit::parse("concurrency 0").expect("a limit");
    block_on(scene.engine.limits().set(name("l"), none)).expect("set");
    scene.settle();
    scene.finish(&fetched, Outcome::Interrupted);
    faulty.hold(Verb::Get);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    faulty.release(Verb::Get);
    scene.settle();
    assert_eq!(scene.try_fetch("q"), None);
}

#[test]
fn held_jobs_are_promoted_although_upkeep_was_dropped() {
    let (scene, faulty) = FaultyStore::test_engine();
    let first = scene.push(job("q"));
    let held = scene.push(NewJob { due: DueTime::After(HOUR), ..after(first) });
    scene.push(NewJob { due: DueTime::After(SECOND), ..job("other") });
    scene.clock.advance(SECOND);
    faulty.hold(Verb::List);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    faulty.release(Verb::List);
    scene.settle();
    let first = scene.fetch("q");
    scene.done(&first);
    scene.pass(HOUR);
    assert_eq!(scene.state(held), State::Ready);
}

#[test]
fn counts_survive_dropped_upkeep() {
    let (scene, faulty) = FaultyStore::test_engine();
    scene.push(job("q"));
    scene.clock.advance(SECOND.times(5));
    faulty.hold(Verb::Note);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    faulty.release(Verb::Note);
    scene.pass(SECOND.times(5));
    let stats = block_on(scene.engine.jobs().stats(name("pushed"), StatStep::Hour)).expect("stats");
    assert_eq!(stats.iter().map(|(_, n)| n).sum::<u64>(), 1);
}

#[test]
fn jobs_without_a_lease_are_delivered_together_or_not_at_all() {
    let (scene, faulty) = FaultyStore::test_engine();
    let free = Spec { lease: None, ..spec("q") };
    let ids = [scene.push(free.clone()), scene.push(free), scene.push(job("q"))];
    let jobs = scene.fetch_n("q", 3);
    faulty.err_once(Verb::Apply);
    let given = block_on(scene.engine.deliveries().hand_over(jobs)).expect("leased jobs are valid");
    assert_eq!(given.iter().map(|job| job.id).collect::<Vec<_>>(), ids[2..]);
    scene.done(&given[0]);
    scene.pass(LEASE);
    let jobs = scene.fetch_n("q", 3);
    faulty.err_once(Verb::Apply);
    assert_eq!(code(scene.engine.deliveries().hand_over(jobs)), Some(Code::Unavailable));
    scene.pass(LEASE);
    let jobs = scene.fetch_n("q", 3);
    assert_eq!(
        block_on(scene.engine.deliveries().hand_over(jobs.clone())).expect("handed over"),
        jobs
    );
    assert_eq!(ids.map(|id| scene.state(id)), [State::Done; 3]);
}

#[test]
fn a_job_without_a_lease_is_not_handed_over_after_a_redelivery() {
    let (scene, _) = FaultyStore::test_engine();
    scene.push(Spec { lease: None, ..spec("q") });
    let late = scene.fetch_n("q", 1);
    scene.pass(LEASE);
    let jobs = scene.fetch_n("q", 1);
    assert_eq!(block_on(scene.engine.deliveries().hand_over(late)).expect("a response"), []);
    assert_eq!(
        block_on(scene.engine.deliveries().hand_over(jobs.clone())).expect("handed over"),
        jobs
    );
}
