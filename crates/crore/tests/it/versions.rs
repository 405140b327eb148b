//! Required versions: which fetches get and are woken by a job, and how a job that no worker can run is explained.

use crore::core::version::{KindVersions, Version, VersionRequirement};
use crore::core::{Code, JobId, NewJob, Span, Spec};
use crore::explain::Reason;
use crore::fetch::Fetch;
use crore::{Engine, block_on};

use crate::test_engine::{
    MINUTE, SECOND, Task, TestEngine, ask, code, job, name, on_both, spec, wait_for,
};

fn requirement(text: &str) -> VersionRequirement {
    VersionRequirement::parse("worker_version", text).expect("a requirement")
}

fn needs(text: &str) -> NewJob {
    Spec { worker_version: Some(Box::new(requirement(text))), ..spec("q") }.into()
}

fn kind() -> String {
    job("q").spec.kind.to_string()
}

fn versions(version: &str) -> KindVersions {
    KindVersions::parse([(kind().as_str(), version)]).expect("versions")
}

/// A fetch of any kind by a worker with this version.
fn with(version: &str) -> Fetch {
    Fetch { versions: versions(version), n: 9, ..ask("q") }
}

fn fetch(scene: &TestEngine, request: Fetch) -> Vec<JobId> {
    block_on(scene.engine.fetch(request)).expect("no error").iter().map(|job| job.id).collect()
}

fn reasons(scene: &TestEngine, id: JobId) -> Vec<Reason> {
    block_on(scene.engine.explain(id)).expect("no error").expect("it exists").reasons
}

fn unrunnable(scene: &TestEngine) -> u64 {
    let all = block_on(scene.engine.deliveries().unrunnable()).expect("no error");
    all.iter().map(|required| required.n).sum()
}

#[test]
fn only_a_worker_with_the_version_gets_a_job() {
    on_both(|scene| {
        let (newer, plain) = (scene.push(needs(">=2.3")), scene.push(job("q")));
        assert_eq!(fetch(scene, ask("q")), [plain]);
        assert_eq!(fetch(scene, with("2.2")), []);
        assert_eq!(fetch(scene, with("2.10")), [newer]);
    });
}

#[test]
fn a_job_keeps_its_requirement_when_the_store_is_reopened() {
    let scene = TestEngine::embedded();
    let id = scene.push(needs(">=2.3"));
    let scene = scene.restarted();
    assert_eq!(fetch(&scene, ask("q")), []);
    assert_eq!(fetch(&scene, with("2.3")), [id]);
}

#[test]
fn a_job_wakes_a_fetch_with_its_version() {
    let scene = TestEngine::memory();
    let waits = |request: Fetch| {
        let request = Fetch { wait: MINUTE, ..request };
        Task::waiting(scene.engine.fetch(request))
    };
    // The first to come is not the one that can run it.
    let mut plain = waits(ask("q"));
    let mut old = waits(with("1"));
    let mut new = waits(with("2.3"));
    let id = scene.push(needs(">=2"));
    assert!(plain.poll_if_woken().is_none() && old.poll_if_woken().is_none());
    let got = new.poll_if_woken().expect("woken").expect("no error");
    assert_eq!(got[0].id, id);
    // The kinds are named.
    let kinds = Some(vec![name(&kind())]);
    let mut named = waits(Fetch { kinds, ..with("3") });
    scene.push(needs(">=3"));
    assert_eq!(named.poll_if_woken().expect("woken").expect("no error").len(), 1);
    let also = vec![(name("q"), name(&kind()))];
    let mut other = waits(Fetch { queues: vec![name("empty")], also, ..with("4") });
    scene.push(needs(">=4"));
    assert_eq!(other.poll_if_woken().expect("woken").expect("no error").len(), 1);
}

#[test]
fn a_wake_up_is_passed_on_to_fetches_with_the_version() {
    let scene = TestEngine::memory();
    let wait = || {
        let request = Fetch { n: 1, wait: MINUTE, ..with("2") };
        Task::waiting(scene.engine.fetch(request))
    };
    let mut waiters = [wait(), wait(), wait()];
    scene.push_all(vec![needs("=2"), needs("=2"), needs("=2")]);
    let mut got = Vec::new();
    for waiter in &mut waiters {
        got.extend(waiter.poll_if_woken().expect("woken in turn").expect("no error"));
    }
    assert_eq!(got.len(), 3);
}

#[test]
fn a_job_that_no_connected_worker_can_run_is_explained_and_counted() {
    on_both(|scene| {
        let id = scene.push(needs(">=2.3"));
        let reason = |connected: &[&str]| {
            let version = |text: &&str| Version::parse("version", text).expect("a version");
            let connected = connected.iter().map(version).collect();
            let (kind, required) = (name(&kind()), requirement(">=2.3"));
            Reason::NoWorkerVersion { kind, required, connected }
        };
        assert_eq!((reasons(scene, id), unrunnable(scene)), (vec![reason(&[])], 1));
        let template = with("1.9");
        let stream = scene.engine.deliveries().connect_versions(&template);
        assert_eq!(fetch(scene, with("2.2")), []);
        assert_eq!(reasons(scene, id), [reason(&["1.9", "2.2"])]);
        drop(stream);
        assert_eq!(reasons(scene, id), [reason(&["2.2"])], "a stream counts until its end");
        scene.pass(MINUTE.times(5));
        assert_eq!(reasons(scene, id), [reason(&[])], "a fetch counts for five minutes");
        let stream = scene.engine.deliveries().connect_versions(&with("2.3"));
        let found = reasons(scene, id);
        assert_eq!((found, unrunnable(scene)), (vec![Reason::NoWorkerWaiting], 0), "it is busy");
        let waiting = Task::waiting(
            scene.engine.fetch(Fetch { kinds: Some(vec![name("x")]), ..wait_for("q") }),
        );
        assert_eq!(reasons(scene, id), [Reason::NoWorkerWaiting]);
        drop((stream, waiting));
        assert_eq!(unrunnable(scene), 1);
        assert_eq!(scene.engine.deliveries().connect_versions(&ask("q")).map(drop), None);
    });
}

#[test]
fn too_many_versions_are_refused() {
    let scene = TestEngine::memory();
    let version = Version::parse("version", "1").expect("a version");
    let many = |n: usize| (0..n).map(|n| (name(&format!("k{n}")), version)).collect();
    let with = |n| Fetch { versions: many(n), ..ask("q") };
    assert_eq!(code(scene.engine.fetch(with(20_000))), Some(Code::CountRange));
    assert_eq!(code(scene.engine.fetch(with(1000))), None);
    let queues = (0..100).map(|n| name(&format!("q{n}"))).collect();
    assert_eq!(code(scene.engine.fetch(Fetch { queues, ..with(1000) })), Some(Code::CountRange));
}

#[test]
fn the_library_requires_and_names_versions() {
    let engine = Engine::memory();
    let push = |text: &str| engine.push("mail", text).worker_version(text).wait();
    push(">=2").expect("pushed");
    let refused = push("two").expect_err("no requirement");
    assert_eq!(refused.code(), Code::VersionRequirement);
    engine.push("mail", "plain").wait().expect("pushed");
    let worker = engine.worker(["mail"]).versions([("mail", "2.0")]);
    let stop = worker.stopper();
    let ran = worker.run_blocking(|work| {
        if work.payload() == b"plain" {
            stop.stop();
        }
        Ok::<(), String>(())
    });
    assert_eq!(ran.expect("no error"), 2);
    let invalid = engine.worker(["mail"]).versions([("mail", "new")]);
    let refused = invalid.run_blocking(|_| Ok::<(), String>(())).expect_err("no version");
    assert_eq!(refused.code(), Code::VersionInvalid);
}

#[test]
fn an_hour_of_old_fetches_leaves_nothing_behind() {
    let scene = TestEngine::memory();
    for n in 0..100 {
        assert_eq!(fetch(&scene, with(&format!("1.{n}"))), []);
        scene.pass(Span::from_secs(36));
    }
    let id = scene.push(needs(">=9"));
    let Some(Reason::NoWorkerVersion { connected, .. }) = reasons(&scene, id).pop() else {
        panic!("no worker has the version");
    };
    assert_eq!(connected.len(), 8, "those of the last five minutes: {connected:?}");
    scene.pass(SECOND.times(600));
    assert_eq!(unrunnable(&scene), 1);
}
