//! Well-behaved plugins.

use std::time::Duration;

use crore_core::Encoding;
use crore_runner::plugin::PluginFactory;
use crore_runner::{FailureClass, RunnerFactory};
use crore_testkit::eventually_async;
use serde_json::json;

use super::builder::{PluginBuilder, root};
use crate::recorded_run::{RecordedRun, run, task, texts};

#[tokio::test]
async fn the_c_and_rust_examples_run_by_file_and_by_plugin_name() {
    let builder = PluginBuilder::new();
    builder.compile(&root().join("sdks/plugin/examples/hello.c"), "hello_c.so", &[]);
    builder.rust_example();
    for name in ["hello_c", "HelloC", "hello", "libhello", "HelloRust"] {
        let runner = builder.make(name).await.expect("it exists");
        let recorded = RecordedRun::new();
        let output = runner.run(&task("world"), &recorded.context).await.expect("it succeeds");
        assert_eq!(texts(&output), ["hello, world"], "{name}");
        assert_eq!(recorded.lines(), ["about to greet"], "{name}");
    }
    let runner = builder.make("hello").await.expect("it exists");
    let failure = run(&*runner, b"\xff").await.expect_err("no text");
    assert_eq!(failure.class, FailureClass::Fatal);
    assert!(failure.error.contains("invalid utf-8"), "{failure}");
}

#[tokio::test]
async fn zero_or_more_items_are_returned_and_text_is_distinguished_from_bytes() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    assert_eq!(run(&*runner, "none").await.expect("none").items, []);
    let items = run(&*runner, "three").await.expect("three").items;
    let items: Vec<_> = items.iter().map(|item| (item.encoding, &item.bytes[..])).collect();
    let expected =
        [(Encoding::Text, &b"one"[..]), (Encoding::Text, b""), (Encoding::Bytes, b"\xff\0")];
    assert_eq!(items, expected);
}

#[tokio::test]
async fn an_instance_is_kept_between_jobs_and_freed_when_dropped() {
    let mut builder = PluginBuilder::odd(&[]);
    let destroyed = builder.path().join("destroyed");
    let place = destroyed.display().to_string();
    builder.setup.env.insert("ODD_DESTROYED".to_owned(), place);
    let runner = builder.runner().await;
    for n in 1..=100 {
        let output = run(&*runner, "count").await.expect("it runs");
        assert_eq!(texts(&output), [format!("run {n}")]);
    }
    assert!(!destroyed.exists());
    drop(runner);
    let sleep = async |pause| drop(tokio::time::timeout(pause, std::future::pending::<()>()).await);
    eventually_async(Duration::from_secs(10), sleep, async || destroyed.exists()).await;
}

#[tokio::test]
async fn the_error_class_of_a_plugin_decides_about_retries() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let cases = [
        ("again", FailureClass::Temporary, "it said so"),
        ("other", FailureClass::Other, "it said so"),
        ("fatal", FailureClass::Fatal, "it said so"),
        ("strange", FailureClass::Other, "it said so"),
        ("silent", FailureClass::Other, "the plugin failed without an error message"),
    ];
    for (argument, class, error) in cases {
        let failure = run(&*runner, argument).await.expect_err("it fails");
        assert_eq!((failure.class, &*failure.error), (class, error), "{argument}");
    }
    assert_eq!(texts(&run(&*runner, "").await.expect("the same child")), ["run 6"]);
}

#[tokio::test]
async fn printed_output_is_logged_and_does_not_corrupt_the_protocol() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let output = runner.run(&task("print"), &recorded.context).await.expect("it runs");
    assert_eq!(texts(&output), ["run 1"]);
    let mut lines = recorded.lines();
    lines.sort();
    assert_eq!(lines, ["to standard error", "to standard output", "without an end-1"]);

    let recorded = RecordedRun::new();
    let output = runner.run(&task("print-much"), &recorded.context).await.expect("it runs");
    assert_eq!(texts(&output), ["run 2"]);
    let lines = recorded.lines();
    assert_eq!((lines.len(), &*lines[4999]), (5000, "line 4999 of what is printed"));
}

#[tokio::test]
async fn a_large_argument_and_a_large_result_are_transferred() {
    let builder = PluginBuilder::odd(&[]);
    let settings = json!({ "plugin": "odd", "max_output": "64MiB" });
    let maker = PluginFactory::new(builder.setup.clone());
    let runner = maker.make(&settings).await.expect("it can be loaded");
    assert_eq!(texts(&run(&*runner, vec![b'x'; 8 << 20]).await.expect("it runs")), ["run 1"]);
    let output = run(&*runner, "large").await.expect("as large as is allowed");
    assert_eq!(output.items[0].bytes.len(), 64 << 20);
}

#[tokio::test]
async fn a_plugin_does_not_inherit_the_servers_environment() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let task = task("hang");
    let running = runner.run(&task, &recorded.context);
    let look = async {
        let pid = recorded.line("pid ").await;
        let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("it runs");
        recorded.stop.cancel();
        environment
    };
    let (_, environment) = tokio::join!(running, look);
    assert_eq!(environment, b"");
}
