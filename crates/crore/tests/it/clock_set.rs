//! A wall clock that is set while the engine runs.

use std::sync::Arc;

use crore::core::NewJob;
use crore::core::job::When;
use crore::fetch::Fetch;
use crore::store::Memory;
use crore::{Engine, Options, block_on};
use crore_testkit::FakeClock;

use crate::scene::{DAY, HOUR, MINUTE, SECOND, Task, ask, job, on_both};

#[test]
fn a_wait_lasts_no_longer_when_the_clock_is_set_back() {
    on_both(|scene| {
        let ask = Fetch { wait: MINUTE, ..ask("q") };
        let mut waits = Task::waiting(scene.engine.fetch(ask));
        scene.pass(SECOND.times(40));
        scene.clock.set(scene.now().before(HOUR));
        scene.settle();
        scene.pass(SECOND.times(19));
        assert!(waits.poll_if_woken().is_none(), "a second is left");
        scene.pass(SECOND);
        let jobs = waits.poll_if_woken().expect("the minute is over").expect("no error");
        assert!(jobs.is_empty());
    });
}

#[test]
fn upkeep_plans_again_when_the_clock_is_set_back() {
    on_both(|scene| {
        scene.settle();
        let planned = scene.engine.upkeep_at();
        assert!(planned > scene.now());
        scene.clock.set(scene.now().before(HOUR));
        assert!(scene.engine.upkeep_at() <= scene.now(), "every planned duty is due");
        scene.settle();
        let planned = scene.engine.upkeep_at().since(scene.now());
        assert!(planned <= MINUTE.times(15), "planned by the old clock: {planned:?}");
    });
}

/// The thread of an engine sleeps by a clock that nobody sets: it has to look at the wall clock now and then.
#[test]
fn jobs_become_ready_soon_after_the_clock_is_set_ahead() {
    let clock = FakeClock::default();
    let store = Arc::new(Memory::new(Arc::new(clock.clone())));
    let engine = Engine::on(store, Arc::new(clock.clone()), Options::default()).expect("an engine");
    let later = NewJob { due: When::After(HOUR), ..job("q") };
    block_on(engine.push_all(vec![later].into())).expect("pushed");
    clock.advance(HOUR.times(2));
    let jobs = block_on(engine.fetch(Fetch { wait: DAY, ..ask("q") })).expect("no error");
    assert_eq!(jobs.len(), 1);
    engine.stop().expect("stopped");
}
