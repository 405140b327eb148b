//! Faulty plugins. Each costs one job.

use std::time::Duration;

use crore_core::{Size, Span};
use crore_runner::plugin::PluginFactory;
use crore_runner::{FailureClass, RunnerFactory};
use crore_testkit::eventually;
use serde_json::json;

use super::builder::PluginBuilder;
use crate::recorded_run::{RecordedRun, run, task, texts};

#[tokio::test]
async fn a_crash_fails_one_job_and_the_next_gets_a_new_child() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let cases = [
        ("segfault", "the plugin crashed (signal SIGSEGV)"),
        ("abort", "the plugin crashed (signal SIGABRT)"),
        ("exit", "the plugin process exited (exit code 3)"),
    ];
    for (argument, error) in cases {
        let failure = run(&*runner, argument).await.expect_err("it is gone");
        assert_eq!((&*failure.error, failure.class), (error, FailureClass::Other));
        assert_eq!(texts(&run(&*runner, "").await.expect("another")), ["run 1"]);
    }
    let failure = run(&*runner, "segfault").await.expect_err("it is gone");
    assert_eq!(failure.detail["signal"], "SIGSEGV");
}

#[tokio::test]
async fn a_child_that_exits_between_two_jobs_is_replaced() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let kill = async {
        let pid = recorded.line("pid ").await;
        let killed = std::process::Command::new("kill").args(["-KILL", &pid]).status();
        assert!(killed.expect("kill runs").success());
    };
    let task = task("hang");
    let (failure, ()) = tokio::join!(runner.run(&task, &recorded.context), kill);
    let failure = failure.expect_err("it was killed");
    assert_eq!(failure.error, "the plugin crashed (signal SIGKILL)");
    assert_eq!(texts(&run(&*runner, "").await.expect("another")), ["run 1"]);
}

#[tokio::test]
async fn invalid_lengths_are_refused() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let cases = [
        ("null-item", "the plugin returned an invalid pointer for 5 bytes"),
        ("null-items", "the plugin returned an invalid pointer for 5 items"),
        ("many-items", "the plugin returned 18446744073709551615 items, which is too many"),
        (
            "long-item",
            "the plugin returned 18446744073709551615 bytes, at most 1048576 are allowed",
        ),
        ("large", "the plugin returned 67108864 bytes, at most 1048576 are allowed"),
    ];
    for (argument, error) in cases {
        let failure = run(&*runner, argument).await.expect_err("an invalid frame");
        assert_eq!((&*failure.error, failure.class), (error, FailureClass::Other));
    }
    assert_eq!(texts(&run(&*runner, "").await.expect("the same child")), ["run 6"]);
    // The host cannot detect this pointer: it reads 4 KiB, or the child crashes.
    let failure = run(&*runner, "long-error").await.expect_err("an invalid frame");
    assert!(failure.error.len() <= 12 << 10, "{}", failure.error.len());
    run(&*runner, "").await.expect("this child, or another");
}

#[tokio::test]
async fn unusable_library_is_refused_on_load() {
    let cases: [(&[&str], &str); 5] = [
        (&["-DABI=7"], "odd.so` has version 7 of the plugin interface, expected 1"),
        (&["-DSYMBOLLESS"], "odd.so` is not a plugin: it does not export `crore_plugin_v1`"),
        (&["-DLACKING"], "odd.so` is not a plugin: it has no function `destroy`"),
        (&["-DCRASHING"], "odd.so`: the plugin crashed (signal SIGABRT)"),
        (&["-Wl,-z,lazy", "-Dpause=no_such_function"], "undefined symbol: no_such_function"),
    ];
    for (flags, error) in cases {
        let builder = PluginBuilder::odd(flags);
        let failure = builder.make("odd").await.map(drop).expect_err("no plugin");
        assert!(failure.error.contains(error), "{failure}");
        assert_eq!(failure.class, FailureClass::Fatal);
        let by_name = builder.make("Odd").await.map(drop).expect_err("no name");
        assert!(by_name.error.contains("no plugin `Odd`"), "{by_name}");
        assert!(by_name.error.ends_with("found `odd`"), "{by_name}");
    }
    let builder = PluginBuilder::new();
    std::fs::write(builder.path().join("text.so"), "no library").expect("written");
    let failure = builder.make("text").await.map(drop).expect_err("no library");
    assert!(failure.error.contains("text.so` cannot be loaded"), "{failure}");
}

#[tokio::test]
async fn loading_a_library_times_out() {
    let mut builder = PluginBuilder::odd(&["-DSTUCK"]);
    builder.setup.options.plugin_start = Span::from_millis(300);
    let failure = builder.make("odd").await.map(drop).expect_err("it is stuck");
    assert!(failure.error.ends_with("did not load within 300ms"), "{failure}");
    assert_eq!(failure.class, FailureClass::Temporary);
}

#[tokio::test]
async fn a_plugin_that_fails_to_initialize_fails_its_jobs_and_its_output_is_logged() {
    let builder = PluginBuilder::odd(&["-DUNMADE"]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let failure = runner.run(&task(""), &recorded.context).await.expect_err("there is no instance");
    assert_eq!(
        failure.error,
        "the plugin created no instance: its function `create` returned null"
    );
    assert_eq!(
        (failure.class, recorded.lines()),
        (FailureClass::Fatal, vec!["made nothing 0".to_owned()])
    );
}

#[tokio::test]
async fn the_memory_limit_of_the_operator_applies() {
    let mut builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    run(&*runner, "memory").await.expect("there is enough");
    builder.setup.options.plugin_memory = Some(Size(128 << 20));
    let runner = builder.runner().await;
    let failure = run(&*runner, "memory").await.expect_err("it exceeds the limit");
    assert_eq!(failure.error, "it said so");
}

#[tokio::test]
async fn a_crash_kills_the_processes_of_the_plugin() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let failure = runner.run(&task("fork-crash"), &recorded.context).await.expect_err("it crashed");
    assert_eq!(failure.error, "the plugin crashed (signal SIGABRT)");
    let orphan = format!("/proc/{}/exe", recorded.line("pid ").await);
    eventually(Duration::from_secs(10), || std::fs::read_link(&orphan).is_err());
}

#[tokio::test]
async fn a_folder_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let builder = PluginBuilder::odd(&[]);
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(builder.path(), open).expect("changed");
    let failure = builder.make("odd").await.map(drop).expect_err("writable by others");
    assert!(failure.error.contains("chmod go-w"), "{failure}");
}

#[tokio::test]
async fn an_unreachable_host_is_named() {
    let mut builder = PluginBuilder::odd(&[]);
    builder.setup.host = "/no/such/host".into();
    let failure = builder.make("odd").await.map(drop).expect_err("nothing to start");
    assert!(failure.error.contains("could not start plugin host `/no/such/host`"), "{failure}");
}

#[tokio::test]
async fn settings_are_checked_without_starting_anything() {
    let mut builder = PluginBuilder::new();
    builder.setup.host = "/no/such/host".into();
    builder.setup.dir = "/no/such/folder".into();
    let plugins = PluginFactory::new(builder.setup.clone());
    assert!(plugins.must_be_allowed() && plugins.name() == "plugin");
    plugins.check(&json!({ "plugin": "any" })).expect("it is valid");
    let invalid = plugins.check(&json!({ "plugin": "a/b" })).expect_err("a path");
    assert_eq!(invalid.field, "settings.plugin");
}
