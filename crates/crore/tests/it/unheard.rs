//! What was asked and not heard: the caller left, or the store does not know. It took effect, and whoever
//! it concerns finds out.

use crore::act::{Act, Other};
use crore::core::handler::BUILT_IN;
use crore::core::job::{Needs, When};
use crore::core::limit::Limit;
use crore::core::machine::Outcome;
use crore::core::push::{After, AfterRef};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, Handler, JobId, NewJob, Spec, State};
use crore::events::Happened;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::views::Step;
use crore::{Error, block_on};

use crate::events::heard;
use crate::handlers::handler;
use crate::scene::{
    DAY, HOUR, LEASE, MINUTE, SECOND, Scene, Task, ask, code, job, name, spec, wait_for,
};
use crate::sick_store::{Sick, Verb};

#[test]
fn a_caller_who_leaves_with_his_claim_unanswered_loses_no_job() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(job("q"));
    sick.mute_once(Verb::Claim);
    drop(Task::waiting(scene.engine.fetch(ask("q"))));
    assert_eq!(scene.state(id), State::Running);
    scene.settle();
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Ready);
}

#[test]
fn a_caller_who_leaves_with_his_push_unanswered_has_his_job_run_when_it_is_due() {
    let (scene, sick) = Sick::scene();
    let mut later = job("q");
    later.due = When::After(MINUTE);
    sick.mute_once(Verb::Push);
    drop(Task::waiting(scene.engine.push_all(later.into())));
    scene.pass(MINUTE);
    assert!(scene.try_fetch("q").is_some());
}

#[test]
fn a_report_whose_answer_nobody_hears_is_told_to_whoever_waits() {
    let (scene, sick) = Sick::scene();
    for is_dropped in [true, false] {
        let id = scene.push(job("q"));
        let fetched = scene.fetch("q");
        let mut held = job("then");
        held.after.push(After { on: AfterRef::Job(id), needs: Needs::Success });
        let held = scene.push(held);
        let mut waiter = Task::waiting(scene.engine.wait(id, HOUR));
        let mut drain = Task::waiting(scene.engine.queues().drain(name("q"), HOUR));
        let mut listener = scene.engine.listen();
        let report = Finish::of(&fetched, Outcome::Cancel);
        if is_dropped {
            sick.mute_once(Verb::Apply);
            drop(Task::waiting(scene.engine.finish(report)));
        } else {
            sick.forget_once(Verb::Apply);
            assert_eq!(code(scene.engine.finish(report)), Some(Code::Unavailable));
        }
        assert_eq!(scene.state(id), State::Cancelled);
        scene.pass(SECOND);
        let ended = waiter.poll_if_woken().expect("told").expect("no error").expect("ended");
        assert_eq!(ended.state, Some(State::Cancelled));
        assert!(drain.poll_if_woken().expect("told").expect("no error"));
        assert!(heard(&mut listener).contains(&(id, Happened::Became(State::Cancelled))));
        assert_eq!(scene.state(held), State::Cancelled, "what waited for it is broken");
        block_on(scene.engine.queues().resume(name("q"))).expect("goes on");
    }
}

#[test]
fn a_retry_whose_report_nobody_heard_comes_when_it_is_due() {
    let (scene, sick) = Sick::scene();
    scene.push(job("q"));
    let fetched = scene.fetch("q");
    sick.mute_once(Verb::Apply);
    drop(Task::waiting(scene.engine.finish(Finish::of(&fetched, Outcome::Snooze(HOUR)))));
    scene.settle();
    scene.pass(HOUR);
    assert!(scene.try_fetch("q").is_some());
}

#[test]
fn a_limit_or_a_schedule_whose_setting_nobody_heard_holds() {
    let (scene, sick) = Sick::scene();
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    sick.mute_once(Verb::Define);
    let set = scene.engine.schedules().set(name("s"), timing, Missed::Skip, job("q"));
    drop(Task::waiting(set));
    scene.settle();
    scene.pass(MINUTE);
    assert_eq!(scene.fetch_n("q", 10).len(), 1);
    let limit = Limit::parse("concurrency 0").expect("a limit");
    sick.mute_once(Verb::Define);
    drop(Task::waiting(scene.engine.limits().set(name("l"), limit)));
    scene.settle();
    scene.push(job("elsewhere"));
    assert_eq!(scene.try_fetch("elsewhere"), None);
}

/// Somebody asks for a change of what is defined, and it takes effect; he does not hear of it.
fn unheard<T>(sick: &Sick, is_dropped: bool, change: impl Future<Output = Result<T, Error>>) {
    unanswered(sick, Verb::Define, is_dropped, change);
}

/// Somebody asks for something, and it takes effect; he does not hear of it.
fn unanswered<T>(
    sick: &Sick,
    verb: Verb,
    is_dropped: bool,
    change: impl Future<Output = Result<T, Error>>,
) {
    if is_dropped {
        sick.mute_once(verb);
        drop(Task::waiting(change));
    } else {
        sick.forget_once(verb);
        assert_eq!(code(change), Some(Code::Unavailable));
    }
}

#[test]
fn limits_that_may_have_been_changed_are_read_again_before_the_next_push() {
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        let none = Limit::parse("concurrency 0").expect("a limit");
        unheard(&sick, is_dropped, scene.engine.limits().set(name("l"), none));
        // Upkeep has not come to it yet.
        let held = scene.push(job("q"));
        assert_eq!(scene.get(held).spec.limits.len(), 1);
        unheard(&sick, is_dropped, scene.engine.limits().remove(name("l")));
        let free = scene.push(job("q"));
        assert_eq!(scene.get(free).spec.limits, []);
    }
}

#[test]
fn a_push_under_limits_that_cannot_be_read_is_refused_and_goes_when_they_can() {
    let (scene, sick) = Sick::scene();
    let none = Limit::parse("concurrency 0").expect("a limit");
    unheard(&sick, false, scene.engine.limits().set(name("l"), none));
    sick.err_once(Verb::Entries);
    assert_eq!(code(scene.engine.push_all(job("q").into())), Some(Code::Unavailable));
    let held = scene.push(job("q"));
    assert_eq!(scene.get(held).spec.limits.len(), 1);
}

#[test]
fn upkeep_that_is_left_in_the_middle_is_due_still() {
    let (scene, sick) = Sick::scene();
    let mut later = job("q");
    later.due = When::After(MINUTE);
    scene.push(later);
    let running = scene.push(Spec { lease: Some(MINUTE), ..spec("other") });
    scene.fetch("other");
    scene.clock.advance(MINUTE);
    sick.hold(Verb::Promote);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    sick.release(Verb::Promote);
    assert!(scene.engine.upkeep().due_at() <= scene.now());
    scene.settle();
    assert!(scene.try_fetch("q").is_some());
    assert_eq!(scene.state(running), State::Ready);
}

#[test]
fn a_handler_whose_setting_nobody_heard_reaches_whoever_waits_at_once() {
    let host = || Fetch { handled: Some(Vec::new()), ..wait_for("q") };
    // It is not counted, so it is set in one write.
    let handler = Handler { id: BUILT_IN, ..handler() };
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        scene.push(job("q"));
        let mut waits = Task::waiting(scene.engine.fetch(host()));
        unheard(&sick, is_dropped, scene.engine.handlers().set(name("work"), handler.clone()));
        let jobs = waits.poll_if_woken().expect("it was woken").expect("fetched");
        assert_eq!(jobs.len(), 1);
    }
    let (scene, sick) = Sick::scene();
    scene.push(job("q"));
    let mut waits = Task::waiting(scene.engine.fetch(host()));
    let holds = sick.clone();
    sick.meanwhile(Verb::Define, move || holds.hold(Verb::Entries));
    drop(Task::waiting(scene.engine.handlers().set(name("work"), handler)));
    sick.release(Verb::Entries);
    let jobs = waits.poll_if_woken().expect("it was woken").expect("fetched");
    assert_eq!(jobs.len(), 1, "whoever set it left before he had read it back");
}

/// Upkeep does something that takes effect, and does not hear of it.
fn upkeep_unheard(scene: &Scene, sick: &Sick, verb: Verb, is_dropped: bool) {
    unanswered(sick, verb, is_dropped, scene.engine.upkeep().run_once());
    scene.pass(SECOND);
}

#[test]
fn what_a_schedule_pushed_unheard_comes_when_it_is_due() {
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        let timing = Timing::parse("timing", "every 24h").expect("a timing");
        let later = NewJob { due: When::After(HOUR), ..job("q") };
        let set = scene.engine.schedules().set(name("s"), timing, Missed::Once, later);
        block_on(set).expect("set");
        scene.settle();
        scene.clock.advance(DAY);
        upkeep_unheard(&scene, &sick, Verb::Apply, is_dropped);
        assert_eq!(scene.try_fetch("q"), None);
        scene.pass(HOUR);
        assert!(scene.try_fetch("q").is_some());
    }
}

/// A job that waits for another one.
fn after(id: JobId) -> NewJob {
    let mut held = job("held");
    held.after.push(After { on: AfterRef::Job(id), needs: Needs::Success });
    held
}

#[test]
fn a_job_that_was_put_off_unheard_while_it_waits_for_another_comes_when_it_is_due() {
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        let first = scene.push(job("q"));
        let held = scene.push(after(first));
        let later = Act::Change(Other { due: Some(When::After(HOUR)), ..Other::default() });
        unanswered(&sick, Verb::Apply, is_dropped, scene.engine.jobs().act(held.into(), &later));
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
fn a_job_that_is_handed_back_unheard_comes_under_the_limits_of_now() {
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        scene.push(job("q"));
        let fetched = scene.fetch("q");
        let none = Limit::parse("concurrency 0").expect("a limit");
        block_on(scene.engine.limits().set(name("l"), none)).expect("set");
        scene.settle();
        let report = Finish::of(&fetched, Outcome::Interrupted);
        unanswered(&sick, Verb::Apply, is_dropped, scene.engine.finish(report));
        scene.pass(SECOND);
        assert_eq!(scene.try_fetch("q"), None);
    }
}

#[test]
fn jobs_that_upkeep_was_about_to_bring_under_a_limit_when_it_was_left_are_brought_under_it() {
    let (scene, sick) = Sick::scene();
    scene.push(job("q"));
    let fetched = scene.fetch("q");
    let none = Limit::parse("concurrency 0").expect("a limit");
    block_on(scene.engine.limits().set(name("l"), none)).expect("set");
    scene.settle();
    scene.finish(&fetched, Outcome::Interrupted);
    sick.hold(Verb::Get);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    sick.release(Verb::Get);
    scene.settle();
    assert_eq!(scene.try_fetch("q"), None);
}

#[test]
fn what_waits_for_others_is_not_overlooked_by_upkeep_that_was_left() {
    let (scene, sick) = Sick::scene();
    let first = scene.push(job("q"));
    let held = scene.push(NewJob { due: When::After(HOUR), ..after(first) });
    scene.push(NewJob { due: When::After(SECOND), ..job("other") });
    scene.clock.advance(SECOND);
    sick.hold(Verb::List);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    sick.release(Verb::List);
    scene.settle();
    let first = scene.fetch("q");
    scene.done(&first);
    scene.pass(HOUR);
    assert_eq!(scene.state(held), State::Ready);
}

#[test]
fn counts_outlive_upkeep_that_was_left() {
    let (scene, sick) = Sick::scene();
    scene.push(job("q"));
    scene.clock.advance(SECOND.times(5));
    sick.hold(Verb::Note);
    drop(Task::waiting(scene.engine.upkeep().run_once()));
    sick.release(Verb::Note);
    scene.pass(SECOND.times(5));
    let stats = block_on(scene.engine.jobs().stats(name("pushed"), Step::Hour)).expect("stats");
    assert_eq!(stats.iter().map(|(_, n)| n).sum::<u64>(), 1);
}

#[test]
fn jobs_without_a_lease_are_handed_over_together_or_not_at_all() {
    let (scene, sick) = Sick::scene();
    let free = Spec { lease: None, ..spec("q") };
    let ids = [scene.push(free.clone()), scene.push(free), scene.push(job("q"))];
    let jobs = scene.fetch_n("q", 3);
    sick.err_once(Verb::Apply);
    let given =
        block_on(scene.engine.deliveries().hand_over(jobs)).expect("what has a lease is good");
    assert_eq!(given.iter().map(|job| job.id).collect::<Vec<_>>(), ids[2..]);
    scene.done(&given[0]);
    scene.pass(LEASE);
    let jobs = scene.fetch_n("q", 3);
    sick.err_once(Verb::Apply);
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
fn a_job_without_a_lease_that_is_anothers_by_now_is_not_handed_over() {
    let (scene, _) = Sick::scene();
    scene.push(Spec { lease: None, ..spec("q") });
    let late = scene.fetch_n("q", 1);
    scene.pass(LEASE);
    let jobs = scene.fetch_n("q", 1);
    assert_eq!(block_on(scene.engine.deliveries().hand_over(late)).expect("asked"), []);
    assert_eq!(
        block_on(scene.engine.deliveries().hand_over(jobs.clone())).expect("handed over"),
        jobs
    );
}
