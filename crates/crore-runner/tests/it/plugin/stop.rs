//! Stopped runs of plugins, and killed servers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crore_runner::plugin::PluginFactory;
use crore_runner::{FailureClass, RunnerFactory};
use crore_testkit::eventually;
use serde_json::json;

use super::builder::PluginBuilder;
use crate::recorded_run::{RecordedRun, run, task, texts};

/// Whether a process runs and is not a zombie.
fn is_alive(pid: &str) -> bool {
    std::fs::read_link(Path::new("/proc").join(pid).join("exe")).is_ok()
}

#[tokio::test]
async fn a_cancel_reaches_a_plugin_that_asks_and_one_that_listens_and_both_are_kept() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    for (argument, says) in [("ask", "asking"), ("listen", "listening")] {
        let recorded = RecordedRun::new();
        let task = task(argument);
        let stop = async {
            recorded.line(says).await;
            recorded.stop.cancel();
        };
        let (failure, ()) = tokio::join!(runner.run(&task, &recorded.context), stop);
        assert_eq!(failure.expect_err("it stopped").class, FailureClass::Stopped);
    }
    assert_eq!(texts(&run(&*runner, "").await.expect("the same child")), ["run 3"]);
}

#[tokio::test]
async fn a_run_stopped_before_its_start_does_not_start() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    recorded.stop.cancel();
    let failure = runner.run(&task("hang"), &recorded.context).await.expect_err("stopped");
    assert_eq!(failure.class, FailureClass::Stopped);
    assert_eq!(texts(&run(&*runner, "").await.expect("the same child")), ["run 1"]);
}

#[tokio::test]
async fn plugin_that_ignores_a_cancel_is_killed_with_its_processes() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    for argument in ["hang", "fork"] {
        let recorded = RecordedRun::new();
        let task = task(argument);
        let stop = async {
            let pid = recorded.line("pid ").await;
            assert!(is_alive(&pid));
            recorded.stop.cancel();
            pid
        };
        let (failure, pid) = tokio::join!(runner.run(&task, &recorded.context), stop);
        assert_eq!(failure.expect_err("it was killed").class, FailureClass::Stopped);
        eventually(Duration::from_secs(10), || !is_alive(&pid));
        assert_eq!(texts(&run(&*runner, "").await.expect("another")), ["run 1"]);
    }
}

#[tokio::test]
async fn a_handler_may_shorten_the_grace_period_only() {
    let builder = PluginBuilder::odd(&[]);
    let plugins = PluginFactory::new(builder.setup.clone());
    for grace in ["1ms", "1h"] {
        let settings = json!({ "plugin": "odd", "grace": grace });
        let runner = plugins.make(&settings).await.expect("it can be loaded");
        let recorded = RecordedRun::new();
        let task = task("hang");
        let stop = async {
            recorded.line("pid ").await;
            recorded.stop.cancel();
        };
        let (failure, ()) = tokio::join!(runner.run(&task, &recorded.context), stop);
        assert_eq!(failure.expect_err("it was killed").class, FailureClass::Stopped, "{grace}");
    }
}

#[tokio::test]
async fn a_dropped_run_kills_its_child() {
    let builder = PluginBuilder::odd(&[]);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let task = task("hang");
    let pid = tokio::select! {
        _ = runner.run(&task, &recorded.context) => panic!("it hangs"),
        pid = recorded.line("pid ") => pid,
    };
    eventually(Duration::from_secs(10), || !is_alive(&pid));
    assert_eq!(texts(&run(&*runner, "").await.expect("another")), ["run 1"]);
}

const PLACE: &str = "CRORE_PLUGIN_HOLDER";

/// Runs in the server process that is killed. Does nothing in an ordinary test run.
#[tokio::test]
async fn holder_process_runs_a_hanging_job() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let mut builder = PluginBuilder::new();
    builder.setup.dir = PathBuf::from(place);
    let runner = builder.runner().await;
    let recorded = RecordedRun::new();
    let task = task("fork");
    tokio::select! {
        _ = runner.run(&task, &recorded.context) => panic!("it hangs"),
        () = async {
            println!("\npid {}", recorded.line("pid ").await);
            std::future::pending::<()>().await;
        } => {}
    }
}

#[test]
fn the_child_and_its_processes_die_when_the_server_is_killed() {
    let builder = PluginBuilder::odd(&[]);
    let mut holder = Command::new(std::env::current_exe().expect("this binary has a path"))
        .args(["--exact", "--nocapture", "plugin::stop::holder_process_runs_a_hanging_job"])
        .env(PLACE, builder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    let pid = lines.find_map(|line| Some(line.strip_prefix("pid ")?.to_owned())).expect("a pid");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let parent = stat.lines().find_map(|line| line.strip_prefix("PPid:\t")).expect("a parent");
    assert!(is_alive(&pid) && is_alive(parent));
    holder.kill().expect("it runs");
    holder.wait().expect("it was started");
    eventually(Duration::from_secs(10), || !is_alive(&pid) && !is_alive(parent));
}
