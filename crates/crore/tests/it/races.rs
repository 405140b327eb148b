//! Races: changes between a call to the store and its answer are not overlooked.

use crore::block_on;
use crore::core::job::JobRetention;
use crore::core::limit::Limit;
use crore::core::machine::{Outcome, Report};
use crore::core::{JobId, Spec, State};
use crore::finish::{Finish, FinishResult};
use crore::store::jobs::Renew;
use crore::store::registry::QueueSettings;

use crate::faulty_store::{FaultyStore, Verb};
use crate::test_engine::{HOUR, LEASE, Task, job, jobs, name, spec};

#[test]
fn a_wait_that_begins_while_its_job_ends_and_is_removed_gets_the_end() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(Spec { retain: JobRetention::Nothing, ..spec("q") });
    let fetched = scene.fetch("q");
    faulty.hold(Verb::Get);
    let mut waiter = Task::waiting(scene.engine.wait(id, HOUR));
    scene.done(&fetched);
    faulty.release(Verb::Get);
    let ended = waiter.poll().expect("a response").expect("no error").expect("ended");
    assert_eq!((ended.id, ended.state), (id, None));
}

#[test]
fn a_lease_renewed_during_its_expiry_still_expires_later() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(job("q"));
    let fetched = scene.fetch("q");
    let lease = Renew { id, delivery: fetched.live.delivery, span: None };
    let engine = scene.engine.clone();
    faulty.after_next_call(Verb::Lapsed, move || {
        block_on(engine.renew(vec![lease])).expect("renewed");
    });
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Running, "it was renewed in time");
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Ready, "its later expiry is noticed");
}

#[test]
fn a_limit_changed_during_the_scan_is_applied_to_all_jobs() {
    let (scene, faulty) = FaultyStore::test_engine();
    let ids: Vec<JobId> = (0..3)
        .flat_map(|_| scene.push_all(jobs("q", 1000)))
        .map(|taken| taken.id().expect("new"))
        .collect();
    let set = |text| {
        let limit = Limit::parse(text).expect("a limit");
        block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
    };
    set("concurrency 1");
    block_on(scene.engine.upkeep().run_once()).expect("the first thousand");
    faulty.hold(Verb::List);
    let mut sweep = Task::waiting(scene.engine.upkeep().run_once());
    block_on(scene.engine.limits().remove(name("l"))).expect("removed");
    faulty.release(Verb::List);
    sweep.poll().expect("ended").expect("no error");
    scene.settle();
    assert!(ids.iter().all(|id| scene.get(*id).spec.limits.is_empty()));
}

#[test]
fn a_job_pushed_while_a_limit_is_set_is_under_the_limit() {
    let (scene, faulty) = FaultyStore::test_engine();
    faulty.hold(Verb::Push);
    let mut push = Task::waiting(scene.engine.push_all(job("q").into()));
    let limit = Limit::parse("concurrency 0").expect("a limit");
    block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
    scene.settle();
    faulty.release(Verb::Push);
    push.poll().expect("answered").expect("no error");
    scene.settle();
    assert_eq!(scene.try_fetch("q"), None);
}

#[test]
fn a_job_whose_push_response_is_lost_is_under_a_limit_set_meanwhile() {
    for is_dropped in [true, false] {
        let (scene, faulty) = FaultyStore::test_engine();
        faulty.hold(Verb::Push);
        let mut push = Task::waiting(scene.engine.push_all(job("q").into()));
        let limit = Limit::parse("concurrency 0").expect("a limit");
        block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
        scene.settle();
        if is_dropped {
            faulty.lose_answer_once(Verb::Push);
        } else {
            faulty.answer_with_error_once(Verb::Push);
        }
        faulty.release(Verb::Push);
        assert_eq!(push.poll().is_none(), is_dropped, "it is stored without a response");
        drop(push);
        scene.settle();
        assert_eq!(scene.try_fetch("q"), None);
    }
}

#[test]
fn limits_read_before_a_change_do_not_replace_newer_ones() {
    let (scene, faulty) = FaultyStore::test_engine();
    let engine = scene.engine.clone();
    let limit = |text| Limit::parse(text).expect("a limit");
    // The second limit is set and read while the answer to the first read is pending.
    faulty.after_next_call(Verb::Entries, move || {
        block_on(engine.limits().set(name("second"), limit("concurrency 0"))).expect("set");
    });
    scene.push(job("q"));
    let running = scene.fetch("q");
    block_on(scene.engine.limits().set(name("first"), limit("concurrency 9"))).expect("set");
    // A report does not check whether the limits are current.
    let mut report = Report::from(Outcome::Done { result: None });
    report.on_done.push(job("q"));
    let (id, delivery) = (running.id, Some(running.live.delivery));
    let finished = block_on(scene.engine.finish(Finish { job: id.into(), delivery, report }));
    let Ok(FinishResult::Accepted { pushed, .. }) = finished else { panic!("{finished:?}") };
    let id = pushed[0].id().expect("pushed");
    assert_eq!(scene.get(id).spec.limits.len(), 2);
}

#[test]
fn a_queue_is_paused_despite_a_concurrent_change_of_its_settings() {
    let (scene, faulty) = FaultyStore::test_engine();
    let engine = scene.engine.clone();
    faulty.after_next_call(Verb::Entries, move || {
        let settings = QueueSettings { max_done: 7, ..QueueSettings::default() };
        block_on(engine.queues().set(name("q"), settings)).expect("set");
    });
    block_on(scene.engine.queues().pause(name("q"))).expect("paused");
    let settings = block_on(scene.engine.queues().get(&name("q"))).expect("settings");
    assert_eq!((settings.paused, settings.max_done), (true, 7));
}
