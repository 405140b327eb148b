//! Errors of the engine, and no engine at all.

use std::os::unix::net::UnixListener;

use crore_core::Code;
use crore_runner::docker::DockerFactory;
use crore_runner::{FailureClass, Options, Runner, RunnerFactory};
use serde_json::json;

use super::engine::{Engine, with_image};
use crate::recorded_run::run;

#[tokio::test]
async fn an_unreachable_engine_is_reported_with_its_address() {
    let dir = tempfile::tempdir().expect("a folder");
    let deaf = dir.path().join("deaf.sock");
    drop(UnixListener::bind(&deaf).expect("a socket"));
    let missing = "unix:///no/such/docker.sock".to_owned();
    for address in [missing, format!("unix://{}", deaf.display()), "tcp://127.0.0.1:1".to_owned()] {
        let options = Options { docker: Some(address.clone()), ..Options::default() };
        let maker = DockerFactory::new(options);
        assert!(maker.must_be_allowed() && maker.name() == "docker");
        let runner = maker.make(&with_image(json!({}))).await.expect("nothing was requested");
        let failure = run(&*runner, "").await.expect_err("nothing listens");
        let start = format!("no container engine answers at `{address}`: ");
        assert!(failure.error.starts_with(&start), "{failure}");
        assert_eq!(failure.class, FailureClass::Fatal);
    }
}

#[tokio::test]
async fn an_engine_that_starts_later_is_found() {
    let Some(engine) = Engine::start() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let later = dir.path().join("later.sock");
    let docker = Some(format!("unix://{}", later.display()));
    let options = Options { docker, ..Options::default() };
    let runner = DockerFactory::new(options).make(&with_image(json!({ "cmd": ["true"] }))).await;
    let runner = runner.expect("settings");
    run(&*runner, "").await.expect_err("nothing listens");
    let real = engine.docker.process().dir().join("docker.sock");
    std::os::unix::fs::symlink(real, later).expect("linked");
    run(&*runner, "").await.expect("it exists now");
}

#[tokio::test]
async fn missing_and_disallowed_images_are_reported() {
    let Some(mut engine) = Engine::start() else { return };
    let runner = async |engine: &Engine, settings| -> Box<dyn Runner> {
        DockerFactory::new(engine.options.clone()).make(&settings).await.expect("settings")
    };
    let never = runner(&engine, json!({ "image": "no-such-image", "pull": "never" })).await;
    let failure = run(&*never, "").await.expect_err("it does not exist");
    assert_eq!(failure.error, "image `no-such-image` does not exist");
    assert_eq!(failure.class, FailureClass::Fatal);

    // Nothing listens at this address.
    for pull in ["missing", "always"] {
        let settings = json!({ "image": "localhost:1/no-such-image", "pull": pull });
        let failure =
            run(&*runner(&engine, settings).await, "").await.expect_err("it does not exist");
        let start = "could not pull image `localhost:1/no-such-image`: ";
        assert!(failure.error.starts_with(start), "{failure}");
        assert_eq!(failure.class, FailureClass::Temporary);
    }

    engine.options.images = ["alpine:*".parse().expect("a pattern")].into_iter().collect();
    let maker = DockerFactory::new(engine.options.clone());
    let invalid = maker.check(&with_image(json!({}))).expect_err("not allowed");
    assert_eq!((&*invalid.field, invalid.code), ("settings.image", Code::RunnerForbidden));
    let failure = maker.make(&with_image(json!({}))).await.map(drop).expect_err("not allowed");
    assert_eq!(failure.class, FailureClass::Fatal);
    engine.assert_nothing_left();
}

#[tokio::test]
async fn requests_that_the_engine_refuses_are_not_retried() {
    let Some(mut engine) = Engine::start() else { return };
    let failure = engine.shell("true", json!({ "memory": "1KiB" })).await.expect_err("too little");
    assert!(failure.error.contains("memory limit"), "{failure}");
    assert_eq!((failure.class, &failure.detail["status"]), (FailureClass::Fatal, &json!(400)));
    let other = engine.shell("true", json!({ "platform": "linux/riscv64", "pull": "never" })).await;
    let failure = other.expect_err("it has none");
    assert_eq!(failure.class, FailureClass::Fatal, "{failure}");
    engine.options.container_network = true;
    let failure = engine.shell("true", json!({ "network": "no-such" })).await.expect_err("none");
    assert!(failure.error.contains("network no-such not found"), "{failure}");
    engine.assert_nothing_left();
}
