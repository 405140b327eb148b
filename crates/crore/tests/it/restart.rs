//! An engine that is restarted on an existing store, and an idle engine.

use crore::core::job::DeliveryEnd;
use crore::core::machine::Outcome;
use crore::core::{Spec, State};
use crore::fetch::Fetch;
use crore::finish::FinishResult;

use crate::faulty_store::{FaultyStore, Verb};
use crate::test_engine::{HOUR, LEASE, MINUTE, SECOND, Task, TestEngine, ask, job, on_both, spec};

const DONE: Outcome = Outcome::Done { result: None };

#[test]
fn workers_keep_their_jobs_for_one_lease_after_a_restart() {
    on_both(|scene| {
        let ids = [scene.push(job("q")), scene.push(job("q"))];
        let running = scene.fetch_n("q", 2);
        scene.clock.advance(LEASE.times(2));
        let scene = scene.restarted();
        scene.pass(SECOND.times(29));
        assert!(ids.iter().all(|id| scene.state(*id) == State::Running));
        assert!(matches!(scene.finish(&running[0], DONE), FinishResult::Accepted { .. }));
        scene.pass(SECOND);
        assert_eq!((scene.state(ids[0]), scene.state(ids[1])), (State::Done, State::Ready));
    });
}

#[test]
fn leases_expire_on_time_after_a_restart_on_a_full_disk() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(job("q"));
    scene.fetch("q");
    scene.clock.advance(SECOND.times(20));
    faulty.full_once(Verb::Renew);
    let scene = scene.restarted();
    scene.pass(SECOND.times(9));
    assert_eq!(scene.state(id), State::Running);
    scene.pass(SECOND);
    assert_eq!(scene.state(id), State::Ready);
}

#[test]
fn runs_keep_their_timeouts_after_a_restart() {
    let scene = TestEngine::memory();
    let id = scene.push(Spec { timeout: Some(SECOND.times(10)), ..spec("q") });
    scene.fetch("q");
    scene.clock.advance(SECOND.times(4));
    let scene = scene.restarted();
    scene.pass(SECOND.times(6));
    assert_eq!(scene.get(id).live.history[0].ended, DeliveryEnd::TimedOut);
}

#[test]
fn the_next_upkeep_of_an_idle_engine_is_a_distant_pruning() {
    on_both(|scene| {
        let far = scene.now().after(MINUTE.times(15));
        assert_eq!(scene.engine.upkeep().due_at(), far);
        scene.push(job("q"));
        scene.done(&scene.fetch("q"));
        scene.pass(HOUR);
        assert_eq!(scene.engine.upkeep().due_at(), scene.now().after(MINUTE.times(15)));
        let waiter = Task::waiting(scene.engine.fetch(Fetch { wait: MINUTE, ..ask("q") }));
        assert_eq!(scene.engine.upkeep().due_at(), scene.now().after(MINUTE));
        drop(waiter);
        assert_eq!(scene.engine.upkeep().due_at(), scene.now().after(MINUTE.times(15)));
    });
}
