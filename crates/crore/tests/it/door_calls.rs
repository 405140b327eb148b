//! Engine calls that the server's doors use besides those on the path of a job.

use crore::core::machine::Outcome;
use crore::core::{Code, Delivery, JobId, State};
use crore::finish::FinishResult;
use crore::store::registry::{QueueSettings, RegistryValue};
use crore::store::views::Note;
use crore::store::{Durability, embedded};
use crore::{Engine, Options, block_on};

use crate::test_engine::{HOUR, Task, TestEngine, job, name, on_both, wait_for};

#[test]
fn a_quiesced_engine_hands_out_nothing_and_accepts_reports() {
    on_both(|scene| {
        let running = scene.push(job("q"));
        let held = scene.fetch("q");
        let mut waits = Task::waiting(scene.engine.fetch(wait_for("empty")));
        scene.push(job("q"));
        scene.engine.lifecycle().quiesce();
        assert_eq!(waits.poll_if_woken().expect("woken at once").expect("no error"), []);
        assert_eq!(scene.try_fetch("q"), None);
        let finished = scene.finish(&held, Outcome::Done { result: None });
        assert!(matches!(finished, FinishResult::Accepted { .. }));
        assert_eq!((held.id, scene.state(running)), (running, State::Done));
    });
}

#[test]
fn a_store_reports_its_durability_and_its_problems() {
    let memory = Engine::memory();
    assert_eq!(
        (memory.status().durability(), memory.status().store_problem()),
        (Durability::Memory, None)
    );
    for (when, survives, class) in [
        (embedded::DurabilityMode::Always, Durability::Power, "D2"),
        (embedded::DurabilityMode::Interval, Durability::Process, "D1"),
        (embedded::DurabilityMode::None, Durability::Process, "D1"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = Options::default();
        options.store.durability = when;
        let engine = Engine::open_with(dir.path(), options).expect("a store");
        assert_eq!(
            (engine.status().durability(), engine.status().store_problem()),
            (survives, None)
        );
        assert_eq!(engine.status().durability().to_string(), class);
    }
}

#[test]
fn notes_are_merged_and_capped() {
    let scene = TestEngine::memory();
    scene.push(job("q"));
    let held = scene.fetch("q");
    let (id, delivery) = (held.id, held.live.delivery);
    let line = |text: String| Note::Line { id, delivery, text: text.into() };
    let progress = |percent| Note::Progress { id, delivery, percent, text: "half".into() };
    let note = |notes| block_on(scene.engine.deliveries().note(notes));
    let foreign = Note::Line { id: JobId(4711), delivery: Delivery(1), text: "x".into() };
    let kept = note(vec![progress(50), line("x".repeat(1 << 20)), foreign]).expect("no error");
    assert_eq!(kept, 2);
    let notes = block_on(scene.engine.jobs().notes(id)).expect("no error");
    assert_eq!(notes.progress.map(|(_, percent, _)| percent), Some(50));
    assert_eq!(notes.lines[0].1.len(), scene.engine.status().caps().text_bytes);
    let refused = note(vec![progress(50), progress(101)]).expect_err("too far");
    assert_eq!(
        (refused.code(), refused.to_string().starts_with("notes[1].percent")),
        (Code::CountRange, true)
    );
    let many = note(vec![line("x".to_owned()); 1001]).expect_err("too many");
    assert_eq!(many.code(), Code::CountRange);
}

#[test]
fn settings_of_a_queue_are_changed_one_by_one() {
    on_both(|scene| {
        let change = |set: fn(&mut QueueSettings)| {
            block_on(scene.engine.queues().change(name("q"), set)).expect("no error")
        };
        block_on(scene.engine.queues().pause(name("q"))).expect("no error");
        let settings = change(|settings| settings.keep_dead = HOUR);
        let expected = QueueSettings { paused: true, keep_dead: HOUR, ..QueueSettings::default() };
        assert_eq!(settings, expected);
        assert_eq!(block_on(scene.engine.queues().get(&name("q"))).expect("no error"), expected);
    });
}

#[test]
fn one_limit_and_one_schedule_can_be_read() {
    use crore::core::limit::Limit;
    use crore::core::schedule::{Missed, Timing};

    let engine = TestEngine::memory().engine;
    let limit = Limit::parse("concurrency 1").expect("a limit");
    block_on(engine.limits().set(name("one"), limit.clone())).expect("no error");
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    block_on(engine.schedules().set(name("one"), timing, Missed::Skip, job("q")))
        .expect("no error");
    let found =
        block_on(engine.limits().get(&name("one"))).expect("no error").map(|entry| entry.value);
    assert_eq!(found, Some(RegistryValue::Limit(limit)));
    assert!(block_on(engine.schedules().get(&name("one"))).expect("no error").is_some());
    assert!(block_on(engine.limits().get(&name("two"))).expect("no error").is_none());
    assert!(block_on(engine.schedules().get(&name("two"))).expect("no error").is_none());
}
