//! Stopped and dropped runs of containers.

use std::time::Duration;

use crore_runner::{FailureClass, Runner};
use crore_testkit::eventually;
use serde_json::{Value, json};

use super::engine::Engine;
use crate::recorded_run::{RecordedRun, task};

fn cmd_settings(script: &str, grace: &str) -> Value {
    json!({ "cmd": ["sh", "-c", script], "grace": grace })
}

/// Runs until it prints `ready`, then cancels. Returns the class of the failure and the lines.
async fn cancel(runner: &dyn Runner) -> (FailureClass, Vec<String>) {
    let recorded = RecordedRun::new();
    let task = task("");
    let stop = async {
        recorded.line("ready").await;
        recorded.stop.cancel();
    };
    let (ended, ()) = tokio::join!(runner.run(&task, &recorded.context), stop);
    (ended.expect_err("stopped").class, recorded.lines())
}

#[tokio::test]
async fn a_cancel_lets_a_container_end_and_removes_it() {
    let Some(engine) = Engine::start() else { return };
    let script = "trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.05; done";
    let runner = engine.runner(cmd_settings(script, "20s")).await;
    let (class, lines) = cancel(&*runner).await;
    assert_eq!((class, lines), (FailureClass::Stopped, vec!["ready".to_owned(), "bye".to_owned()]));
    engine.assert_nothing_left();
}

#[tokio::test]
async fn container_that_ignores_a_cancel_is_killed_and_removed() {
    let Some(engine) = Engine::start() else { return };
    let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let runner = engine.runner(cmd_settings(script, "300ms")).await;
    assert_eq!(cancel(&*runner).await.0, FailureClass::Stopped);
    engine.assert_nothing_left();
}

#[tokio::test]
async fn a_run_stopped_before_its_start_creates_no_container() {
    let Some(engine) = Engine::start() else { return };
    let runner = engine.runner(cmd_settings("echo ready", "1s")).await;
    let recorded = RecordedRun::new();
    recorded.stop.cancel();
    let failure = runner.run(&task(""), &recorded.context).await.expect_err("stopped");
    assert_eq!((failure.class, recorded.lines()), (FailureClass::Stopped, Vec::new()));
    engine.assert_nothing_left();
}

/// A host drops a run when its timeout passes.
#[tokio::test]
async fn a_dropped_run_removes_its_container_at_any_stage() {
    let Some(engine) = Engine::start() else { return };
    let runner = engine.runner(cmd_settings("echo ready; sleep 1000", "1s")).await;
    let recorded = RecordedRun::new();
    let task = task("");
    tokio::select! {
        _ = runner.run(&task, &recorded.context) => panic!("the run does not end by itself"),
        _ = recorded.line("ready") => {}
    }
    let nothing = || engine.containers().is_empty();
    eventually(Duration::from_secs(20), nothing);
    for millis in [0, 1, 3, 10, 30, 100, 300] {
        let run = runner.run(&task, &recorded.context);
        let ended = tokio::time::timeout(Duration::from_millis(millis), run).await;
        assert!(ended.is_err(), "the run does not end by itself");
    }
    // The engine may still be creating a container whose request was dropped.
    tokio::task::spawn_blocking(move || {
        eventually(Duration::from_secs(20), || engine.containers().is_empty());
        engine.docker.command(&["info"]).expect("healthy");
        eventually(Duration::from_secs(20), || engine.containers().is_empty());
    })
    .await
    .expect("nothing is left");
}

#[test]
fn a_runtime_that_ends_removes_its_containers() {
    let Some(engine) = Engine::start() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let recorded = RecordedRun::new();
    let watched = recorded.clone();
    let runner = runtime.block_on(engine.runner(cmd_settings("echo ready; sleep 1000", "1s")));
    runtime.spawn(async move { runner.run(&task(""), &recorded.context).await });
    runtime.block_on(watched.line("ready"));
    assert_eq!(engine.containers().len(), 1);
    assert!(engine.containers()[0].contains("crore.job=7"), "{:?}", engine.containers());
    drop(runtime);
    eventually(Duration::from_secs(20), || engine.containers().is_empty());
}

#[tokio::test]
async fn a_job_is_retried_when_its_container_engine_disappears() {
    let Some(engine) = Engine::start() else { return };
    let runner = engine.runner(cmd_settings("echo ready; sleep 1000", "1s")).await;
    let recorded = RecordedRun::new();
    let task = task("");
    let kill = async {
        recorded.line("ready").await;
        let pid = engine.docker.process().pid().to_string();
        let killed = std::process::Command::new("kill").args(["-KILL", &pid]).status();
        assert!(killed.expect("kill runs").success());
    };
    let (ended, ()) = tokio::join!(runner.run(&task, &recorded.context), kill);
    let failure = ended.expect_err("no worker is left");
    assert!(failure.error.starts_with("could not run the container: "), "{failure}");
    assert_eq!(failure.class, FailureClass::Temporary);
}
