//! Handlers: defaults of pushed jobs, fetches by handler, and follow-ups.

use crore::block_on;
use crore::core::handler::{
    BUILT_IN_ID, FollowUpHandler, FollowUpPayload, HANDLER_LABEL, HandlerSchedule, PHASE_LABEL,
    join_items,
};
use crore::core::job::{DueTime, ResultRetention};
use crore::core::machine::{Outcome, RetryDirective};
use crore::core::push::UnsetFields;
use crore::core::unique::{Unique, UniqueHold};
use crore::core::{Encoding, Handler, Job, NewJob, Payload, Spec, State, Time};
use crore::fetch::Fetch;
use crore::store::views::ListQuery;

use crate::test_engine::{HOUR, SECOND, Task, TestEngine, ask, name, on_both};

pub(crate) fn handler() -> Handler {
    Handler::new(name("command"), [("program".to_owned(), "ls".into())].into_iter().collect())
}

fn set(scene: &TestEngine, kind: &str, handler: Handler) -> u64 {
    block_on(scene.engine.handlers().set(name(kind), handler)).expect("set")
}

fn job_with_unset_fields(kind: &str) -> NewJob {
    let spec = Spec::new(name(kind), name(kind), Payload::json("1"));
    NewJob { unset: UnsetFields::ALL, ..spec.into() }
}

fn handled(queue: &str) -> Fetch {
    Fetch { handled: Some(Vec::new()), n: 10, ..ask(queue) }
}

fn fetch_handled(scene: &TestEngine) -> Vec<Job> {
    block_on(scene.engine.fetch(handled("default"))).expect("fetched")
}

fn follow(kind: &str) -> FollowUpHandler {
    FollowUpHandler { kind: name(kind), gives: FollowUpPayload::Items }
}

fn give(scene: &TestEngine, job: &Job, result: Payload) {
    scene.finish(job, Outcome::Done { result: Some(result) });
}

fn die(scene: &TestEngine, job: &Job) {
    let failed = Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
    scene.finish(job, failed);
}

#[test]
fn numbers_count_up_and_are_never_used_again() {
    on_both(|scene| {
        assert_eq!([set(scene, "a", handler()), set(scene, "b", handler())], [1, 2]);
        assert_eq!(set(scene, "a", handler()), 1, "the same one");
        let remove = |kind| block_on(scene.engine.handlers().remove(name(kind))).expect("removed");
        assert_eq!((remove("b"), remove("b")), (true, false));
        let scene = scene.restarted();
        assert_eq!(set(&scene, "b", handler()), 3);
        let add =
            |kind| block_on(scene.engine.handlers().add(name(kind), handler())).expect("added");
        assert_eq!((add("b"), add("c")), (None, Some(4)));
        let all = block_on(scene.engine.handlers().list()).expect("handlers");
        let ids: Vec<_> = all.iter().map(|(kind, it)| (kind.to_string(), it.handler.id)).collect();
        assert_eq!(ids, [("a".into(), 1), ("b".into(), 3), ("c".into(), 4)]);
    });
}

#[test]
fn a_built_in_handler_keeps_its_number_and_allocates_none() {
    on_both(|scene| {
        let built_in = || Handler { id: BUILT_IN_ID, ..handler() };
        assert_eq!(set(scene, "in", built_in()), BUILT_IN_ID);
        assert_eq!(set(scene, "a", handler()), 1);
        assert_eq!(set(scene, "in", handler()), BUILT_IN_ID, "the same one");
        assert_eq!(set(&scene.restarted(), "b", handler()), 2);
    });
}

#[test]
fn a_job_records_the_handler_it_was_pushed_for() {
    on_both(|scene| {
        set(scene, "b", handler());
        let number = set(scene, "a", Handler { next: vec![follow("b")], ..handler() });
        let id = scene.push(job_with_unset_fields("a"));
        assert_eq!(scene.get(id).spec.labels[HANDLER_LABEL], number.to_string());
        let job = fetch_handled(scene).remove(0);
        give(scene, &job, Payload::json("1"));
        let next = fetch_handled(scene).remove(0);
        assert_eq!(next.spec.labels[HANDLER_LABEL], "1", "so does a follow-up");
        let other = scene.push(Spec::new(name("q"), name("nobody's"), Payload::json("1")));
        assert!(scene.get(other).spec.labels.is_empty());
    });
}

#[test]
fn a_handler_fills_in_what_the_pusher_left_unset() {
    on_both(|scene| {
        let mut handler = handler();
        handler.timeout = Some(SECOND);
        handler.retry.max_attempts = Some(2);
        handler.results.success = true;
        set(scene, "k", handler);
        let id = scene.push(job_with_unset_fields("k"));
        let said = Spec::new(name("q"), name("k"), Payload::json("1"));
        let other = scene.push(said);
        let spec = scene.get(id).spec;
        assert_eq!((&spec.queue, spec.timeout), (&name("default"), Some(SECOND)));
        assert_eq!(spec.retry.max_attempts, Some(2));
        assert!(matches!(spec.keep, ResultRetention::For(_)));
        let spec = scene.get(other).spec;
        assert_eq!(
            (&spec.queue, spec.timeout, spec.keep),
            (&name("q"), None, ResultRetention::Discard)
        );
    });
}

#[test]
fn a_change_of_handlers_reaches_waiting_fetches_at_once() {
    on_both(|scene| {
        scene.push(Spec::new(name("default"), name("k"), Payload::json("1")));
        let ask = Fetch { wait: HOUR, ..handled("default") };
        let mut waits = Task::waiting(scene.engine.fetch(ask));
        set(scene, "other", handler());
        assert!(waits.poll_if_woken().is_none(), "no matching job");
        set(scene, "k", handler());
        let jobs = waits.poll_if_woken().expect("it was woken").expect("fetched");
        assert_eq!(jobs.len(), 1);
        block_on(scene.engine.handlers().remove(name("k"))).expect("removed");
        scene.push(Spec::new(name("default"), name("k"), Payload::json("1")));
        assert_eq!(fetch_handled(scene), []);
        scene.push(Spec::new(name("default"), name("other"), Payload::json("1")));
        assert_eq!(fetch_handled(scene).len(), 1);
    });
}

#[test]
fn a_fetch_for_a_kind_is_woken_although_one_for_handlers_waits() {
    let scene = TestEngine::memory();
    set(&scene, "k", handler());
    let hour = |ask| Fetch { wait: HOUR, ..ask };
    let _handled = Task::waiting(scene.engine.fetch(hour(handled("default"))));
    let kinds = Some(vec![name("other")]);
    let mut plain = Task::waiting(scene.engine.fetch(hour(Fetch { kinds, ..ask("default") })));
    scene.push(Spec::new(name("default"), name("other"), Payload::json("1")));
    assert!(plain.poll_if_woken().is_some());
}

#[test]
fn a_result_is_passed_to_the_follow_up_in_the_same_write() {
    on_both(|scene| {
        set(scene, "b", Handler { timeout: Some(SECOND), ..handler() });
        set(scene, "a", Handler { next: vec![follow("b"), follow("nobody")], ..handler() });
        let id = scene.push(NewJob {
            spec: Spec { priority: -3, ..job_with_unset_fields("a").spec },
            ..job_with_unset_fields("a")
        });
        let job = fetch_handled(scene).remove(0);
        give(scene, &job, join_items(&[b"one", b"", b"two"]));
        let jobs = fetch_handled(scene);
        let told: Vec<_> = jobs.iter().map(|job| &*job.spec.payload.bytes).collect();
        assert_eq!(told, [b"one", b"two"]);
        for (n, job) in (0..).zip(&jobs) {
            assert_eq!((job.spec.parent, job.spec.priority), (Some((id, n)), -3));
            assert_eq!((&job.spec.kind, job.spec.timeout), (&name("b"), Some(SECOND)));
        }
    });
}

#[test]
fn every_cause_of_death_pushes_the_failure_follow_ups() {
    on_both(|scene| {
        let mut tries = handler();
        tries.on_failure =
            vec![FollowUpHandler { kind: name("tell"), gives: FollowUpPayload::Summary }];
        tries.retry.max_attempts = Some(1);
        tries.timeout = Some(SECOND);
        set(scene, "a", tries);
        set(scene, "tell", handler());
        scene.push(job_with_unset_fields("a"));
        scene.push(job_with_unset_fields("a"));
        let jobs = fetch_handled(scene);
        die(scene, &jobs[0]);
        scene.pass(SECOND);
        let told = fetch_handled(scene);
        let texts: Vec<_> =
            told.iter().map(|job| String::from_utf8_lossy(&job.spec.payload.bytes)).collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0].contains(r#""error":"no""#), "{}", texts[0]);
        assert!(texts[1].contains(r#""error":"timed out""#), "{}", texts[1]);
        // Deleting a dead job does not count as another death.
        scene.act(jobs[0].id, &crore::actions::JobAction::Delete);
        assert_eq!(fetch_handled(scene), []);
    });
}

#[test]
fn a_run_retried_by_hand_has_only_one_successor() {
    on_both(|scene| {
        set(scene, "a", Handler { every: Some(SECOND), ..handler() });
        let first = scene.push(job_with_unset_fields("a"));
        let mut dead = first;
        for _ in 0..3 {
            let job = fetch_handled(scene).pop().expect("a run");
            die(scene, &job);
            for id in [first, dead] {
                scene.act(id, &crore::actions::JobAction::Retry);
                fetch_handled(scene).iter().for_each(|again| die(scene, again));
            }
            dead = job.id;
            scene.pass(SECOND);
        }
        assert_eq!(fetch_handled(scene).len(), 1);
    });
}

#[test]
fn a_unique_key_that_outlives_its_job_does_not_end_the_repetition() {
    for hold in [UniqueHold::Window, UniqueHold::UntilSuccess, UniqueHold::UntilStart] {
        let scene = TestEngine::memory();
        set(&scene, "a", Handler { every: Some(SECOND), ..handler() });
        let mut first = job_with_unset_fields("a");
        first.spec.unique = Some(Box::new(Unique { key: "once".into(), hold, window: Some(HOUR) }));
        scene.push(first);
        for _ in 0..3 {
            let job = fetch_handled(&scene).pop().expect("a run");
            die(&scene, &job);
            scene.pass(SECOND);
        }
    }
}

#[test]
fn a_host_gets_only_jobs_of_its_runners() {
    on_both(|scene| {
        set(scene, "a", handler());
        set(scene, "b", Handler { runner: name("http"), ..handler() });
        scene.push(job_with_unset_fields("a"));
        scene.push(job_with_unset_fields("b"));
        let by = |runner: &str| {
            let ask = Fetch { handled: Some(vec![name(runner)]), ..handled("default") };
            let jobs = block_on(scene.engine.fetch(ask)).expect("fetched");
            jobs.into_iter().map(|job| job.spec.kind.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            (by("docker"), by("http"), by("command")),
            (vec![], vec!["b".into()], vec!["a".into()])
        );
    });
}

#[test]
fn the_schedule_of_a_handler_is_changed_through_the_handler_alone() {
    let scene = TestEngine::memory();
    let removed = block_on(scene.engine.schedules().remove(name("handler:a")));
    assert!(matches!(removed, Err(crore::Error::Refused { .. })), "{removed:?}");
}

#[test]
fn a_long_result_is_truncated_in_a_summary() {
    let scene = TestEngine::memory();
    set(&scene, "b", handler());
    let next = vec![FollowUpHandler { kind: name("b"), gives: FollowUpPayload::Summary }];
    set(&scene, "a", Handler { next, ..handler() });
    scene.push(job_with_unset_fields("a"));
    let job = fetch_handled(&scene).remove(0);
    give(&scene, &job, Payload::new(Encoding::Text, "\u{7}\u{fc}".repeat(300_000).into_bytes()));
    let told = fetch_handled(&scene).pop().expect("a follow-up");
    assert!(told.spec.payload.bytes.len() < scene.engine.status().caps().payload_bytes);
}

#[test]
fn invalid_follow_ups_fail_the_job() {
    let scene = TestEngine::memory();
    set(&scene, "b", handler());
    set(&scene, "a", Handler { next: vec![follow("b")], ..handler() });
    let id = scene.push(job_with_unset_fields("a"));
    let job = fetch_handled(&scene).remove(0);
    let items = vec![&b"x"[..]; scene.engine.status().caps().batch_jobs + 1];
    give(&scene, &job, join_items(&items));
    let job = scene.get(id);
    assert_eq!(job.live.state, State::Dead);
    let error = job.live.history[0].error.clone().unwrap_or_default();
    assert!(error.starts_with("the follow-ups cannot be pushed: "), "{error}");
    assert_eq!(fetch_handled(&scene), []);
}

#[test]
fn a_job_without_a_lease_is_done_although_its_follow_ups_exceed_a_cap() {
    let scene = TestEngine::memory();
    let mut options = crore::Options::default();
    options.caps.batch_jobs = 1;
    let clock = std::sync::Arc::new(scene.clock.clone());
    let engine = block_on(crore::Engine::without_thread(scene.store.clone(), clock, options))
        .expect("an engine");
    let summary = |kind| FollowUpHandler { kind: name(kind), gives: FollowUpPayload::Summary };
    let next = vec![summary("a"), summary("b")];
    for (kind, handler) in
        [("a", handler()), ("b", handler()), ("k", Handler { next, ..handler() })]
    {
        block_on(engine.handlers().set(name(kind), handler)).expect("set");
    }
    let spec = Spec { lease: None, ..Spec::new(name("default"), name("k"), Payload::json("1")) };
    let job = NewJob { unset: UnsetFields::default(), ..spec.into() };
    block_on(engine.push_all(job.into())).expect("pushed");
    let jobs = block_on(engine.fetch(ask("default"))).expect("fetched");
    let id = jobs[0].id;
    assert_eq!(block_on(engine.deliveries().hand_over(jobs)).expect("handed over").len(), 1);
    assert!(
        block_on(engine.get(id))
            .expect("a response")
            .is_none_or(|job| job.live.state == State::Done)
    );
    assert!(block_on(engine.fetch(ask("default"))).expect("fetched").is_empty());
}

#[test]
fn a_repeating_job_with_a_delay_has_the_phase_of_its_first_due_time() {
    on_both(|scene| {
        scene.pass(SECOND.times(1000));
        set(scene, "a", Handler { every: Some(SECOND.times(10)), ..handler() });
        let mut first = job_with_unset_fields("a");
        first.due = DueTime::After(SECOND.times(3));
        scene.push(first);
        let due = scene.now().after(SECOND.times(3));
        scene.pass(SECOND.times(3));
        let job = fetch_handled(scene).pop().expect("a run");
        assert_eq!(job.spec.labels[PHASE_LABEL], due.as_millis().to_string());
        give(scene, &job, Payload::new(Encoding::Text, &b"x"[..]));
        scene.pass(SECOND.times(9));
        assert!(fetch_handled(scene).is_empty(), "it is not due before ten seconds");
        scene.pass(SECOND);
        assert_eq!(fetch_handled(scene).len(), 1);
    });
}

#[test]
fn a_repeating_job_keeps_its_phase_and_key_whatever_its_outcome() {
    on_both(|scene| {
        scene.pass(SECOND.times(1000));
        set(scene, "a", Handler { every: Some(SECOND.times(3)), ..handler() });
        let mut first = job_with_unset_fields("a");
        first.due = DueTime::At(Time::from_millis(1000));
        let unique = Unique { key: "once".into(), hold: UniqueHold::UntilEnd, window: None };
        first.spec.unique = Some(Box::new(unique));
        scene.push(first);
        let mut last = None;
        for round in 0..4 {
            let job = fetch_handled(scene).pop().expect("a run");
            assert_ne!(Some(job.id), last, "a job of its own");
            last = Some(job.id);
            assert_eq!(job.spec.labels[PHASE_LABEL], "1000");
            assert_eq!(&*job.spec.payload.bytes, b"1");
            scene.pass(SECOND.times(4));
            match round % 2 {
                0 => give(scene, &job, Payload::new(Encoding::Text, &b"x"[..])),
                _ => die(scene, &job),
            }
            assert_eq!(fetch_handled(scene), [], "it is not yet due");
            scene.pass(SECOND.times(3));
        }
        let job = fetch_handled(scene).pop().expect("a run");
        assert_eq!(job.live.due.as_millis() % 3000, 1000);
        // The next run of a run that is retried by hand already exists.
        let query =
            ListQuery { state: State::Dead, queue: None, kind: None, key: None, after: None, n: 1 };
        let dead = block_on(scene.engine.list(query)).expect("listed").jobs[0].id;
        scene.act(dead, &crore::actions::JobAction::Retry);
        let retried = fetch_handled(scene).pop().expect("a run");
        give(scene, &retried, Payload::new(Encoding::Text, &b"x"[..]));
        scene.pass(SECOND.times(3));
        assert_eq!(fetch_handled(scene), [], "only one runs");
        // Cancelling a run ends the repetition.
        scene.act(job.id, &crore::actions::JobAction::Cancel);
        scene.finish(&job, Outcome::Cancel);
        scene.pass(HOUR);
        assert_eq!(fetch_handled(scene), []);
    });
}

#[test]
fn the_handler_fills_in_what_a_schedule_leaves_unset() {
    let scene = TestEngine::memory();
    set(&scene, "a", handler());
    let timing = crore::core::schedule::Timing::parse("timing", "every 5s").expect("good");
    let missed = crore::core::schedule::Missed::Once;
    let set = scene.engine.schedules().set(name("s"), timing, missed, job_with_unset_fields("a"));
    block_on(set).expect("set");
    scene.pass(SECOND.times(5));
    assert_eq!(fetch_handled(&scene).len(), 1);
}

#[test]
fn the_schedule_of_a_handler_is_created_and_removed_with_it() {
    on_both(|scene| {
        let timing = crore::core::schedule::Timing::parse("timing", "every 5s").expect("good");
        let missed = crore::core::schedule::Missed::Once;
        let planned = HandlerSchedule { timing, missed, payload: serde_json::json!({ "a": 1 }) };
        let with = Handler { schedule: Some(planned), ..handler() };
        set(scene, "a", with.clone());
        scene.pass(SECOND.times(4));
        // Setting the same definition again does not postpone the schedule.
        set(scene, "a", with);
        scene.pass(SECOND);
        let [job] = &fetch_handled(scene)[..] else { panic!("one job") };
        assert_eq!(&*job.spec.payload.bytes, br#"{"a":1}"#);
        set(scene, "a", handler());
        scene.pass(SECOND.times(20));
        assert_eq!(fetch_handled(scene), []);
        assert_eq!(block_on(scene.engine.schedules().list()).expect("schedules").len(), 0);
    });
}

#[test]
fn an_invalid_handler_is_refused_with_the_field() {
    let scene = TestEngine::memory();
    let mut bad = handler();
    bad.timeout = Some(crore::core::Span::ZERO);
    for (kind, handler, field) in [("a", bad, "timeout"), ("crore.handlers", handler(), "kind")] {
        let refused = block_on(scene.engine.handlers().set(name(kind), handler));
        let Err(crore::Error::Invalid(invalid)) = refused else { panic!("{refused:?}") };
        assert_eq!(invalid.field, field);
    }
}

/// Runs a job of kind `first` and returns the kind of its follow-up, if there is one, which is run too.
fn run_and_follow_up_kind(scene: &TestEngine, first: &str) -> Option<String> {
    scene.push(job_with_unset_fields(first));
    let [job] = &fetch_handled(scene)[..] else { panic!("one job") };
    give(scene, job, Payload::json("1"));
    let jobs = fetch_handled(scene);
    for job in &jobs {
        scene.finish(job, Outcome::Done { result: None });
    }
    jobs.first().map(|job| job.spec.kind.to_string())
}

#[test]
fn a_link_by_number_survives_renaming_and_late_creation_of_its_handler() {
    on_both(|scene| {
        set(scene, "first", Handler { links: vec![2], ..handler() });
        assert_eq!(run_and_follow_up_kind(scene, "first"), None, "it does not exist yet");
        assert_eq!(set(scene, "second", handler()), 2);
        assert_eq!(run_and_follow_up_kind(scene, "first").as_deref(), Some("second"));
        let handlers = scene.engine.handlers();
        let second = block_on(handlers.get(&name("second"))).expect("read").expect("it exists");
        let (from, it) = ((name("second"), second.revision), (*second.handler).clone());
        assert!(block_on(handlers.rename(from, name("renamed"), it)).expect("renamed"));
        let scene = scene.restarted();
        assert_eq!(run_and_follow_up_kind(&scene, "first").as_deref(), Some("renamed"));
        let handlers = scene.engine.handlers();
        assert!(block_on(handlers.remove(name("renamed"))).expect("removed"));
        assert_eq!(run_and_follow_up_kind(&scene, "first"), None);
        assert_eq!(set(&scene, "renamed", handler()), 3, "another one of the same kind");
        assert_eq!(run_and_follow_up_kind(&scene, "first"), None);
    });
}

#[test]
fn a_handler_that_is_read_and_set_again_keeps_its_follow_ups() {
    on_both(|scene| {
        set(scene, "first", Handler { links: vec![2], next: vec![follow("b")], ..handler() });
        set(scene, "second", handler());
        let known = || {
            block_on(scene.engine.handlers().get(&name("first"))).expect("read").expect("it exists")
        };
        let before = known();
        assert_eq!(before.follows.next, [follow("b"), follow("second")]);
        set(scene, "first", (*before.handler).clone());
        assert_eq!(known().follows, before.follows);
    });
}
