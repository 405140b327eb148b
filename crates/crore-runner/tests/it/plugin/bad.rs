//! What plugins do wrong, and that it costs one job.

use std::time::Duration;

use crore_core::{Size, Span};
use crore_runner::plugin::Plugins;
use crore_runner::{Class, Maker};
use crore_testkit::eventually;
use serde_json::json;

use super::workshop::Workshop;
use crate::run::{Around, run, task, texts};

#[tokio::test]
async fn a_crash_costs_one_job_and_the_next_gets_a_fresh_child() {
    let workshop = Workshop::odd(&[]);
    let runner = workshop.runner().await;
    let cases = [
        ("segfault", "the plugin crashed (signal SIGSEGV)"),
        ("abort", "the plugin crashed (signal SIGABRT)"),
        ("exit", "the plugin ended its process (exit code 3)"),
    ];
    for (argument, error) in cases {
        let failure = run(&*runner, argument).await.expect_err("it is gone");
        assert_eq!((&*failure.error, failure.class), (error, Class::Other));
        assert_eq!(texts(&run(&*runner, "").await.expect("another")), ["run 1"]);
    }
    let failure = run(&*runner, "segfault").await.expect_err("it is gone");
    assert_eq!(failure.detail["signal"], "SIGSEGV");
}

#[tokio::test]
async fn a_child_that_died_between_two_jobs_is_replaced() {
    let workshop = Workshop::odd(&[]);
    let runner = workshop.runner().await;
    let around = Around::new();
    let kill = async {
        let pid = around.line("pid ").await;
        let killed = std::process::Command::new("kill").args(["-KILL", &pid]).status();
        assert!(killed.expect("kill runs").success());
    };
    let task = task("hang");
    let (failure, ()) = tokio::join!(runner.run(&task, &around.context), kill);
    let failure = failure.expect_err("it was killed");
    assert_eq!(failure.error, "the plugin crashed (signal SIGKILL)");
    assert_eq!(texts(&run(&*runner, "").await.expect("another")), ["run 1"]);
}

#[tokio::test]
async fn who_lies_about_lengths_is_refused() {
    let workshop = Workshop::odd(&[]);
    let runner = workshop.runner().await;
    let cases = [
        ("null-item", "the plugin says that it gave 5 bytes, and points at none"),
        ("null-items", "the plugin says that it gave 5 items, and points at none"),
        ("many-items", "the plugin gave 18446744073709551615 items, which are too many"),
        ("long-item", "the plugin gave 18446744073709551615 bytes, at most 1048576 are allowed"),
        ("large", "the plugin gave 67108864 bytes, at most 1048576 are allowed"),
    ];
    for (argument, error) in cases {
        let failure = run(&*runner, argument).await.expect_err("it lies");
        assert_eq!((&*failure.error, failure.class), (error, Class::Other));
    }
    assert_eq!(texts(&run(&*runner, "").await.expect("the same child")), ["run 6"]);
    // Nobody can tell that such an error is not there: 4 KiB of it are read, or the child crashes.
    let failure = run(&*runner, "long-error").await.expect_err("it lies");
    assert!(failure.error.len() <= 12 << 10, "{}", failure.error.len());
    run(&*runner, "").await.expect("this child, or another");
}

#[tokio::test]
async fn what_is_no_plugin_is_refused_when_it_is_loaded() {
    let cases: [(&[&str], &str); 5] = [
        (&["-DABI=7"], "odd.so` speaks version 7 of the plugin interface, not 1"),
        (&["-DSYMBOLLESS"], "odd.so` is no plugin: it exports no `crore_plugin_v1`"),
        (&["-DLACKING"], "odd.so` is no plugin: it has no function `destroy`"),
        (&["-DCRASHING"], "odd.so` was not loaded: the plugin crashed (signal SIGABRT)"),
        (&["-Wl,-z,lazy", "-Dpause=no_such_function"], "undefined symbol: no_such_function"),
    ];
    for (flags, error) in cases {
        let workshop = Workshop::odd(flags);
        let failure = workshop.make("odd").await.map(drop).expect_err("no plugin");
        assert!(failure.error.contains(error), "{failure}");
        assert_eq!(failure.class, Class::Fatal);
        let by_name = workshop.make("Odd").await.map(drop).expect_err("it tells no name");
        assert!(by_name.error.contains("there is no plugin `Odd`"), "{by_name}");
        assert!(by_name.error.ends_with("there is `odd`"), "{by_name}");
    }
    let workshop = Workshop::new();
    std::fs::write(workshop.path().join("text.so"), "no library").expect("written");
    let failure = workshop.make("text").await.map(drop).expect_err("no library");
    assert!(failure.error.contains("text.so` cannot be loaded"), "{failure}");
}

#[tokio::test]
async fn a_library_that_takes_for_ever_to_load_is_given_up() {
    let mut workshop = Workshop::odd(&["-DSTUCK"]);
    workshop.setup.options.plugin_start = Span::from_millis(300);
    let failure = workshop.make("odd").await.map(drop).expect_err("it is stuck");
    assert!(failure.error.ends_with("was not loaded within 300ms"), "{failure}");
    assert_eq!(failure.class, Class::Again);
}

#[tokio::test]
async fn a_plugin_that_cannot_be_set_up_fails_its_jobs_and_its_words_are_heard() {
    let workshop = Workshop::odd(&["-DUNMADE"]);
    let runner = workshop.runner().await;
    let around = Around::new();
    let failure = runner.run(&task(""), &around.context).await.expect_err("there is no instance");
    assert_eq!(failure.error, "the plugin could not be set up");
    assert_eq!((failure.class, around.lines()), (Class::Fatal, vec!["made nothing 0".to_owned()]));
}

#[tokio::test]
async fn memory_is_bounded_where_the_operator_says_so() {
    let mut workshop = Workshop::odd(&[]);
    let runner = workshop.runner().await;
    run(&*runner, "memory").await.expect("there is enough");
    workshop.setup.options.plugin_memory = Some(Size(128 << 20));
    let runner = workshop.runner().await;
    let failure = run(&*runner, "memory").await.expect_err("it wants twice as much");
    assert_eq!(failure.error, "it said so");
}

#[tokio::test]
async fn a_crash_takes_along_what_the_plugin_has_started() {
    let workshop = Workshop::odd(&[]);
    let runner = workshop.runner().await;
    let around = Around::new();
    let failure = runner.run(&task("fork-crash"), &around.context).await.expect_err("it crashed");
    assert_eq!(failure.error, "the plugin crashed (signal SIGABRT)");
    let orphan = format!("/proc/{}/exe", around.line("pid ").await);
    eventually(Duration::from_secs(10), || std::fs::read_link(&orphan).is_err());
}

#[tokio::test]
async fn a_folder_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::odd(&[]);
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(workshop.path(), open).expect("changed");
    let failure = workshop.make("odd").await.map(drop).expect_err("anybody could put it there");
    assert!(failure.error.contains("chmod go-w"), "{failure}");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_named() {
    let mut workshop = Workshop::odd(&[]);
    workshop.setup.host = "/no/such/host".into();
    let failure = workshop.make("odd").await.map(drop).expect_err("nothing to start");
    assert!(failure.error.contains("`/no/such/host`, which runs plugins"), "{failure}");
}

#[tokio::test]
async fn settings_are_checked_without_anything_being_started() {
    let mut workshop = Workshop::new();
    workshop.setup.host = "/no/such/host".into();
    workshop.setup.dir = "/no/such/folder".into();
    let plugins = Plugins::new(workshop.setup.clone());
    assert!(plugins.needs_leave() && plugins.name() == "plugin");
    plugins.check(&json!({ "plugin": "any" })).expect("nothing is wrong with it");
    let invalid = plugins.check(&json!({ "plugin": "a/b" })).expect_err("a path");
    assert_eq!(invalid.field, "settings.plugin");
}
