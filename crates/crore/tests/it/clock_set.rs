//! The wall clock is set while the engine runs.

use crore::fetch::Fetch;

use crate::test_engine::{HOUR, MINUTE, SECOND, Task, ask, on_both};

#[test]
fn a_clock_set_back_does_not_prolong_a_wait() {
    on_both(|scene| {
        let ask = Fetch { wait: MINUTE, ..ask("q") };
        let mut waits = Task::waiting(scene.engine.fetch(ask));
        scene.pass(SECOND.times(40));
        scene.clock.set(scene.now().before(HOUR));
        scene.settle();
        scene.pass(SECOND.times(19));
        assert!(waits.poll_if_woken().is_none(), "one second is left");
        scene.pass(SECOND);
        let jobs = waits.poll_if_woken().expect("the minute is over").expect("no error");
        assert!(jobs.is_empty());
    });
}

#[test]
fn upkeep_plans_again_when_the_clock_is_set_back() {
    on_both(|scene| {
        scene.settle();
        let planned = scene.engine.upkeep().due_at();
        assert!(planned > scene.now());
        scene.clock.set(scene.now().before(HOUR));
        assert!(scene.engine.upkeep().due_at() <= scene.now(), "every planned duty is due");
        scene.settle();
        let planned = scene.engine.upkeep().due_at().since(scene.now());
        assert!(planned <= MINUTE.times(15), "planned by the old clock: {planned:?}");
    });
}
