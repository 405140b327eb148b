//! Jobs of renamed handlers, and reserved handlers and labels that callers may not use.

use crore::block_on;
use crore::core::handler::{HANDLER_LABEL, MAX_FORMER_KINDS};
use crore::core::machine::{Outcome, Report};
use crore::core::push::RESERVED_PREFIX;
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, Handler, NewJob, Payload, Spec, State};
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::push::PushResult;
use crore::store::registry::{Define, RegistryValue};

use crate::handlers::handler;
use crate::test_engine::{SECOND, TestEngine, ask, code, name, on_both};

fn spec(kind: &str) -> Spec {
    Spec::new(name("default"), name(kind), Payload::json("1"))
}

fn set(scene: &TestEngine, kind: &str, handler: Handler) -> u64 {
    block_on(scene.engine.handlers().set(name(kind), handler)).expect("set")
}

fn rename(scene: &TestEngine, from: &str, to: &str) {
    let known =
        block_on(scene.engine.handlers().get(&name(from))).expect("a response").expect("it exists");
    let (seen, it) = ((name(from), known.revision), (*known.handler).clone());
    assert!(block_on(scene.engine.handlers().rename(seen, name(to), it)).expect("a response"));
}

fn formerly(scene: &TestEngine, kind: &str) -> Vec<String> {
    let known =
        block_on(scene.engine.handlers().get(&name(kind))).expect("a response").expect("it exists");
    known.handler.formerly.iter().map(ToString::to_string).collect()
}

fn handled(scene: &TestEngine) -> Vec<crore::core::Job> {
    let ask = Fetch { handled: Some(vec![name("command")]), n: 10, ..ask("default") };
    block_on(scene.engine.fetch(ask)).expect("fetched")
}

#[test]
fn a_renamed_handler_runs_jobs_waiting_under_its_old_name_also_after_a_restart() {
    on_both(|scene| {
        let unlabelled = scene.push(spec("old"));
        set(scene, "old", handler());
        let labelled = scene.push(spec("old"));
        rename(scene, "old", "new");
        let scene = scene.restarted();
        let later = scene.push(spec("old"));
        assert_eq!(
            scene.get(later).spec.labels[HANDLER_LABEL],
            "1",
            "the old name still refers to it"
        );
        let jobs = handled(&scene);
        assert_eq!(
            jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
            [unlabelled, labelled, later]
        );
        for job in &jobs {
            let (kind, _) = scene.engine.handlers().of_job(job).expect("it has a handler");
            assert_eq!(kind, name("new"));
            scene.done(job);
        }
    });
}

#[test]
fn a_reused_name_belongs_to_the_new_handler_except_for_jobs_pushed_before() {
    let scene = TestEngine::memory();
    set(&scene, "old", handler());
    scene.push(spec("old"));
    rename(&scene, "old", "new");
    set(&scene, "old", handler());
    scene.push(spec("old"));
    let kinds = handled(&scene);
    let kinds =
        kinds.iter().map(|job| scene.engine.handlers().of_job(job).expect("one").0.to_string());
    assert_eq!(kinds.collect::<Vec<_>>(), ["new", "old"]);
}

#[test]
fn old_names_are_kept_while_they_have_jobs_up_to_a_maximum() {
    let scene = TestEngine::memory();
    set(&scene, "0", handler());
    scene.push(spec("0"));
    rename(&scene, "0", "1");
    rename(&scene, "1", "2");
    assert_eq!(formerly(&scene, "2"), ["1", "0"]);
    rename(&scene, "2", "3");
    assert_eq!(formerly(&scene, "3"), ["2", "0"], "there is no job of `1`");
    set(&scene, "3", handler());
    assert_eq!(formerly(&scene, "3"), ["2", "0"], "whatever the other settings");
    rename(&scene, "3", "0");
    assert_eq!(formerly(&scene, "0"), ["3"], "the current name is not among the old ones");
    for n in 0..MAX_FORMER_KINDS + 3 {
        let (from, to) = (n.to_string(), (n + 1).to_string());
        scene.push(spec(&from));
        rename(&scene, &from, &to);
    }
    assert_eq!(formerly(&scene, &(MAX_FORMER_KINDS + 3).to_string()).len(), MAX_FORMER_KINDS);
}

#[test]
fn an_unreadable_handler_is_reported_and_does_not_affect_others() {
    on_both(|scene| {
        set(scene, "good", handler());
        let bad = Define::set(name("bad"), RegistryValue::Handler("by post".into()));
        block_on(scene.store.define(vec![bad])).expect("stored").into_inner();
        let scene = scene.restarted();
        let engine = &scene.engine;
        assert_eq!(block_on(engine.handlers().unreadable()).expect("a response"), [name("bad")]);
        assert_eq!(block_on(engine.handlers().list()).expect("a response").len(), 1);
        assert_eq!(code(engine.handlers().get(&name("bad"))), Some(Code::Refused));
        assert_eq!(set(&scene, "bad", handler()), 2);
        assert_eq!(block_on(engine.handlers().unreadable()).expect("a response"), []);
    });
}

fn labelled(label: &str) -> NewJob {
    let mut spec = spec("k");
    spec.labels.insert(label.to_owned(), "99999999999999".to_owned());
    spec.into()
}

#[test]
fn reserved_labels_are_refused_from_callers() {
    on_both(|scene| {
        let own = format!("{RESERVED_PREFIX}phase");
        let taken = scene.push_all(vec![labelled("phase"), labelled(&own)]);
        let [PushResult::New(_), PushResult::Invalid(invalid)] = &taken[..] else {
            panic!("{taken:?}")
        };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::LabelRange, "jobs[1].labels"));
        let timing = Timing::parse("timing", "every 1h").expect("good");
        let set =
            scene.engine.schedules().set(name("s"), timing.clone(), Missed::Skip, labelled(&own));
        let Err(crore::Error::Invalid(invalid)) = block_on(set) else { panic!("it is refused") };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::LabelRange, "job.labels"));
        let job = scene.fetch("default");
        let mut report = Report::from(Outcome::Done { result: None });
        report.on_done.push(labelled(&own));
        let (id, delivery) = (job.id, Some(job.live.delivery));
        let finish = scene.engine.finish(Finish { job: id.into(), delivery, report });
        assert_eq!(code(finish), Some(Code::LabelRange));
        assert_eq!(scene.state(id), State::Running);
        scene.done(&job);
    });
}

#[test]
fn reserved_labels_do_not_count_against_the_cap_of_a_repeating_job() {
    on_both(|scene| {
        set(scene, "k", Handler { every: Some(SECOND), ..handler() });
        let mut spec = spec("k");
        let most = scene.engine.status().caps().labels;
        spec.labels = (0..most).map(|n| (n.to_string(), String::new())).collect();
        scene.push(spec);
        for _ in 0..3 {
            let jobs = handled(scene);
            let [job] = &jobs[..] else { panic!("{jobs:?}") };
            scene.done(job);
            scene.pass(SECOND);
        }
    });
}
