//! What was asked and not heard: the caller left, or the store does not know. It took effect, and whoever
//! it concerns finds out.

use crore::core::job::{Needs, When};
use crore::core::limit::Limit;
use crore::core::machine::Outcome;
use crore::core::push::{After, AfterRef};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, Spec, State};
use crore::events::Happened;
use crore::finish::Finish;
use crore::{Error, block_on};

use crate::events::heard;
use crate::scene::{HOUR, LEASE, MINUTE, SECOND, Task, ask, code, job, name, spec};
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
        let mut drain = Task::waiting(scene.engine.drain(name("q"), HOUR));
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
        block_on(scene.engine.resume(name("q"))).expect("goes on");
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
    let set = scene.engine.set_schedule(name("s"), timing, Missed::Skip, job("q"));
    drop(Task::waiting(set));
    scene.settle();
    scene.pass(MINUTE);
    assert_eq!(scene.fetch_n("q", 10).len(), 1);
    let limit = Limit::parse("concurrency 0").expect("a limit");
    sick.mute_once(Verb::Define);
    drop(Task::waiting(scene.engine.set_limit(name("l"), limit)));
    scene.settle();
    scene.push(job("elsewhere"));
    assert_eq!(scene.try_fetch("elsewhere"), None);
}

/// Somebody asks for a change of the limits, and it takes effect; he does not hear of it.
fn unheard<T>(sick: &Sick, is_dropped: bool, change: impl Future<Output = Result<T, Error>>) {
    if is_dropped {
        sick.mute_once(Verb::Define);
        drop(Task::waiting(change));
    } else {
        sick.forget_once(Verb::Define);
        assert_eq!(code(change), Some(Code::Unavailable));
    }
}

#[test]
fn limits_that_may_have_been_changed_are_read_again_before_the_next_push() {
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        let none = Limit::parse("concurrency 0").expect("a limit");
        unheard(&sick, is_dropped, scene.engine.set_limit(name("l"), none));
        // Upkeep has not come to it yet.
        let held = scene.push(job("q"));
        assert_eq!(scene.get(held).spec.limits.len(), 1);
        unheard(&sick, is_dropped, scene.engine.remove_limit(name("l")));
        let free = scene.push(job("q"));
        assert_eq!(scene.get(free).spec.limits, []);
    }
}

#[test]
fn a_push_under_limits_that_cannot_be_read_is_refused_and_goes_when_they_can() {
    let (scene, sick) = Sick::scene();
    let none = Limit::parse("concurrency 0").expect("a limit");
    unheard(&sick, false, scene.engine.set_limit(name("l"), none));
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
    drop(Task::waiting(scene.engine.upkeep_once()));
    sick.release(Verb::Promote);
    assert!(scene.engine.upkeep_at() <= scene.now());
    scene.settle();
    assert!(scene.try_fetch("q").is_some());
    assert_eq!(scene.state(running), State::Ready);
}
