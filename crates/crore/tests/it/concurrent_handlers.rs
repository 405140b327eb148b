//! Concurrent changes of handlers: no change is lost, and no schedule fires twice.

use std::sync::{Arc, Mutex};

use crore::block_on;
use crore::core::handler::HandlerSchedule;
use crore::core::schedule::{Missed, Timing};
use crore::core::{Handler, Revision};
use crore::store::registry::RegistryTable;

use crate::faulty_store::{FaultyStore, Verb};
use crate::handlers::handler;
use crate::test_engine::{SECOND, TestEngine, name, on_both};

fn planned(timing: &str) -> Handler {
    let timing = Timing::parse("timing", timing).expect("good");
    let planned = HandlerSchedule { timing, missed: Missed::Once, payload: 1.into() };
    Handler { schedule: Some(planned), ..handler() }
}

fn set(scene: &TestEngine, handler: Handler) -> (Handler, Revision) {
    block_on(scene.engine.handlers().set(name("a"), handler)).expect("set");
    known(scene).expect("it exists")
}

fn known(scene: &TestEngine) -> Option<(Handler, Revision)> {
    let known = block_on(scene.engine.handlers().get(&name("a"))).expect("a response");
    known.map(|known| ((*known.handler).clone(), known.revision))
}

fn schedules(scene: &TestEngine) -> usize {
    block_on(scene.engine.schedules().list()).expect("schedules").len()
}

#[test]
fn a_handler_is_replaced_or_removed_only_at_the_revision_seen() {
    on_both(|scene| {
        let (first, seen) = set(scene, planned("every 5s"));
        let (second, now) = set(scene, Handler { pooled: true, ..first.clone() });
        let replace = |revision, handler| {
            let seen = (name("a"), revision);
            block_on(scene.engine.handlers().replace(seen, handler)).expect("a response")
        };
        let remove = |revision| {
            block_on(scene.engine.handlers().remove_at((name("a"), revision))).expect("a response")
        };
        let bare = Handler { schedule: None, ..first };
        assert!(!replace(seen, bare.clone()) && !remove(seen));
        assert_eq!(known(scene), Some((second, now)));
        assert_eq!(schedules(scene), 1, "its schedule is left alone too");
        scene.pass(SECOND.times(5));
        assert_eq!(scene.fetch_n("default", 10).len(), 1);
        assert!(replace(now, bare.clone()));
        let (after, now) = known(scene).expect("it exists");
        assert_eq!((after, schedules(scene)), (bare.clone(), 0));
        assert!(remove(now) && !remove(now) && !replace(now, bare));
        assert_eq!(known(scene), None);
    });
}

#[test]
fn a_handler_that_is_changed_while_another_renames_it_keeps_its_schedule() {
    let (scene, sick) = FaultyStore::test_engine();
    let (first, seen) = set(&scene, planned("every 5s"));
    let (engine, changed) = (scene.engine.clone(), Handler { pooled: true, ..first.clone() });
    let again = Arc::clone(&sick);
    // After the rename has read both kinds, and before it writes.
    sick.after_next_call(Verb::Entries, move || {
        again.after_next_call(Verb::Entries, move || {
            block_on(engine.handlers().set(name("a"), changed)).expect("set");
        });
    });
    let from = (name("a"), seen);
    let is_renamed = block_on(scene.engine.handlers().rename(from, name("b"), first));
    assert!(!is_renamed.expect("a response"));
    let all = block_on(scene.engine.handlers().list()).expect("handlers");
    assert_eq!(all.len(), 1);
    assert!(all[&name("a")].handler.pooled);
    assert_eq!(schedules(&scene), 1);
    scene.pass(SECOND.times(5));
    assert_eq!(scene.fetch_n("default", 10).len(), 1);
}

#[test]
fn a_rename_is_one_write() {
    let (scene, sick) = FaultyStore::test_engine();
    let (first, seen) = set(&scene, planned("every 5s"));
    let (engine, names) = (scene.engine.clone(), Arc::new(Mutex::new(Vec::new())));
    let after_one_write = Arc::clone(&names);
    sick.after_next_call(Verb::Define, move || {
        let schedules = block_on(engine.schedules().list()).expect("schedules");
        let names = schedules.iter().map(|entry| entry.name.to_string());
        after_one_write.lock().expect("no panic").extend(names);
    });
    let renamed = block_on(scene.engine.handlers().rename((name("a"), seen), name("b"), first));
    assert!(renamed.expect("asked"));
    assert_eq!(*names.lock().expect("no panic"), ["handler:b"]);
    let all = block_on(scene.engine.handlers().list()).expect("handlers");
    assert_eq!(all.keys().map(ToString::to_string).collect::<Vec<_>>(), ["b"]);
}

/// No moment, and so no crash, leaves a half of the rename.
#[test]
fn a_rename_to_a_kind_that_is_taken_meanwhile_changes_nothing() {
    let (scene, sick) = FaultyStore::test_engine();
    let (first, seen) = set(&scene, planned("every 5s"));
    let (engine, store) = (scene.engine.clone(), Arc::clone(&scene.store));
    let (again, names) = (Arc::clone(&sick), Arc::new(Mutex::new(Vec::new())));
    let after_one_write = Arc::clone(&names);
    let record = move || {
        for table in [RegistryTable::Handlers, RegistryTable::Schedules] {
            let entries = block_on(store.entries(table, None, 10)).expect("entries");
            let names = entries.iter().map(|entry| entry.name.to_string());
            after_one_write.lock().expect("no panic").extend(names);
        }
    };
    // After two reads of the rename, and before it writes.
    sick.after_next_call(Verb::Entries, move || {
        let last = Arc::clone(&again);
        again.after_next_call(Verb::Entries, move || {
            block_on(engine.handlers().set(name("b"), handler())).expect("set");
            last.after_next_call(Verb::Define, record);
        });
    });
    let renamed = block_on(scene.engine.handlers().rename((name("a"), seen), name("b"), first));
    assert!(!renamed.expect("asked"));
    assert_eq!(*names.lock().expect("no panic"), ["a", "b", "crore.handlers", "handler:a"]);
    assert_eq!(known(&scene).map(|(_, revision)| revision), Some(seen));
}

#[test]
fn a_schedule_that_fires_while_its_handler_is_set_fires_once() {
    let (scene, sick) = FaultyStore::test_engine();
    let (first, _) = set(&scene, planned("every 5s"));
    scene.clock.advance(SECOND.times(5));
    let (engine, again) = (scene.engine.clone(), Arc::clone(&sick));
    // The engine reads the handler first, then its schedule.
    sick.after_next_call(Verb::Entries, move || {
        again.after_next_call(Verb::Entries, move || {
            block_on(engine.upkeep().run_once()).expect("upkeep");
        });
    });
    set(&scene, Handler { pooled: true, ..first });
    scene.settle();
    assert_eq!(scene.fetch_n("default", 10).len(), 1, "the tick fired once");
    scene.pass(SECOND.times(5));
    assert_eq!(scene.fetch_n("default", 10).len(), 1);
    let (handler, _) = known(&scene).expect("it exists");
    assert!(handler.pooled);
}
