//! No process of a run survives it.

use std::io::BufRead;
use std::time::Duration;

use crore_runner::FailureClass;
use crore_testkit::{SeededRng, eventually, unique_name};
use rustix::process::{Pid, set_child_subreaper};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::hosts;
use super::processes::{is_alive, marked, zombies};
use crate::command_fixture::{LogRecorder, command, run, task, text};

/// A shell with a child, a child in its own session, a double-forked daemon, a daemon that ignores SIGTERM,
/// and one without an environment, whose process id it prints.
pub(super) const TREE: &str = "
    sleep 1000 &
    setsid sleep 1000 </dev/null >/dev/null 2>&1 &
    (setsid sh -c 'sleep 1000 & wait' </dev/null >/dev/null 2>&1 &)
    (trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 &)
    sleep 0.05
    env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &
    echo daemon $!
    echo ready
    wait";

/// The process id of the daemon without an environment.
fn daemon(lines: &[String]) -> u32 {
    let pid = lines.iter().find_map(|line| line.strip_prefix("daemon ")?.parse().ok());
    pid.expect("printed")
}

const SOON: Duration = Duration::from_secs(20);

fn tree(unique: &str, grace: &str) -> Value {
    json!({ "program": TREE, "shell": true, "env": { "UNIQUE": unique }, "grace": grace })
}

#[tokio::test]
async fn a_background_child_is_killed_although_it_holds_the_output_open() {
    let settings = json!({ "program": "sleep 1000 & echo $!", "shell": true });
    let output = timeout(SOON, run(&settings, b"")).await.expect("it does not wait for the child");
    let pid = text(&output.expect("it succeeds")).trim().parse().expect("a process");
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn daemons_are_killed_however_they_detached() {
    no_daemon_stays().await;
}

#[tokio::test]
async fn daemons_are_killed_by_a_host_that_is_a_subreaper() {
    // Like the first process of a container. Affects only this test process.
    set_child_subreaper(Some(Pid::INIT)).expect("no permission is needed");
    no_daemon_stays().await;
}

async fn no_daemon_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    // Each writes its process id to a file and sleeps; the script waits for the file.
    let ways = [
        "setsid sh -c \"$SAY\" &",
        "(setsid sh -c \"$SAY\" &)",
        "(setsid sh -c '(setsid sh -c \"$SAY\" &)' &)",
        "setsid nohup sh -c \"$SAY\" </dev/null >/dev/null 2>&1 &",
        "env -i FILE=$FILE sh -c \"$SAY\" &",
        // These can be found only by the limit, which is set once the script runs.
        "sleep 0.05; env -i FILE=$FILE setsid sh -c \"$SAY\" &",
        "sleep 0.05; (env -i FILE=$FILE setsid sh -c '(setsid sh -c \"$0\" &)' \"$SAY\" &)",
        "(env -i FILE=$FILE nohup sh -c \"$SAY\" >/dev/null 2>&1 &)",
        "set -m; sh -c \"$SAY\" &",
    ];
    for way in ways {
        for pause in ["", "sleep 0.15"] {
            let wait = "while ! [ -s $FILE ]; do sleep 0.01; done";
            let settings = json!({
                "program": format!("{way}\n{wait}\n{pause}\ncat $FILE"),
                "shell": true,
                "env": { "FILE": &file, "SAY": "echo $$ >$FILE; exec sleep 1000 >/dev/null 2>&1" },
            });
            let output = timeout(SOON, run(&settings, b"")).await.expect("it ends");
            let pid = text(&output.expect("it succeeds")).trim().parse().expect("a process");
            assert!(!is_alive(pid), "{way} {pause}");
            std::fs::remove_file(&file).expect("it was written");
        }
    }
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn short_lived_orphans_are_reaped_by_a_host_that_is_a_subreaper() {
    set_child_subreaper(Some(Pid::INIT)).expect("no permission is needed");
    // They drop all marks, and have ended before any scan.
    let script = "for i in 1 2 3 4 5 6 7 8; do (env -i setsid true &); done";
    for _ in 0..20 {
        let settings = json!({ "program": script, "shell": true });
        timeout(SOON, run(&settings, b"")).await.expect("it ends").expect("it succeeds");
        assert_eq!(zombies(), 0);
    }
}

#[tokio::test]
async fn a_leader_that_left_its_process_group_is_killed() {
    let script = "setpgrp(0, getpgrp(getppid)); $| = 1; $SIG{TERM} = 'IGNORE'; print qq(ready\\n); sleep 1000";
    let settings = json!({ "program": "perl", "args": ["-e", script], "grace": "50ms" });
    let (recorder, runner) = (LogRecorder::default(), command(&settings).await);
    let (task, context) = (task(b""), recorder.context());
    let stop = async {
        recorder.wait_for_line("ready").await;
        recorder.stop.cancel();
    };
    let ran = timeout(SOON, async { tokio::join!(runner.run(&task, &context), stop) }).await;
    assert_eq!(ran.expect("it ends").0.expect_err("it was stopped").class, FailureClass::Stopped);
}

#[tokio::test]
async fn a_stopped_command_gets_sigterm_and_may_clean_up() {
    let script = "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let recorder = LogRecorder::default();
    let runner = command(&json!({ "program": script, "shell": true })).await;
    let (task, context) = (task(b""), recorder.context());
    let stop = async {
        recorder.wait_for_line("ready").await;
        recorder.stop.cancel();
    };
    let (ran, ()) = timeout(SOON, async { tokio::join!(runner.run(&task, &context), stop) })
        .await
        .expect("it ends");
    assert_eq!(ran.expect_err("it was stopped").class, FailureClass::Stopped);
    assert!(recorder.lines().contains(&"tidied".to_owned()), "{:?}", recorder.lines());
}

#[tokio::test]
async fn child_processes_get_the_same_grace_period() {
    let script = "
        sh -c 'trap \"sleep 0.2; echo tidied; exit 0\" TERM; echo ready; while :; do sleep 0.01; done' &
        wait";
    let recorder = LogRecorder::default();
    let runner = command(&json!({ "program": script, "shell": true })).await;
    let (task, context) = (task(b""), recorder.context());
    let stop = async {
        recorder.wait_for_line("ready").await;
        recorder.stop.cancel();
    };
    let (ran, ()) = tokio::join!(runner.run(&task, &context), stop);
    assert_eq!(ran.expect_err("it was stopped").class, FailureClass::Stopped);
    assert!(recorder.lines().contains(&"tidied".to_owned()), "{:?}", recorder.lines());
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let settings = json!({ "program": script, "shell": true, "grace": "100ms" });
    let (recorder, runner) = (LogRecorder::default(), command(&settings).await);
    let (task, context) = (task(b""), recorder.context());
    let stop = async {
        recorder.wait_for_line("ready").await;
        recorder.stop.cancel();
    };
    let ran = timeout(SOON, async { tokio::join!(runner.run(&task, &context), stop) }).await;
    assert_eq!(ran.expect("it ends").0.expect_err("it was stopped").class, FailureClass::Stopped);
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn the_whole_process_tree_is_gone_when_a_stop_returns() {
    let unique = unique_name("tree");
    let (recorder, runner) = (LogRecorder::default(), command(&tree(&unique, "100ms")).await);
    let (task, context) = (task(b""), recorder.context());
    let stop = async {
        recorder.wait_for_line("ready").await;
        assert!(marked(&unique).len() >= 5, "{:?}", marked(&unique));
        assert!(is_alive(daemon(&recorder.lines())));
        recorder.stop.cancel();
    };
    let (ran, ()) = tokio::join!(runner.run(&task, &context), stop);
    assert_eq!(ran.expect_err("it was stopped").class, FailureClass::Stopped);
    assert_eq!((marked(&unique), zombies()), (vec![], 0));
    assert!(!is_alive(daemon(&recorder.lines())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_and_drops_at_any_moment_leave_no_process() {
    let unique = unique_name("tree");
    let runner = command(&tree(&unique, "20ms")).await;
    let mut dice = SeededRng(7);
    for round in 0..40 {
        let moment = Duration::from_micros(dice.below(120_000));
        let (recorder, task) = (LogRecorder::default(), task(b""));
        let context = recorder.context();
        let mut running = runner.run(&task, &context);
        let ended = timeout(moment, &mut running).await;
        assert!(ended.is_err(), "{round}: {ended:?}");
        if dice.percent(50) {
            recorder.stop.cancel();
            let failure = running.await.expect_err("it was stopped");
            assert_eq!(failure.class, FailureClass::Stopped, "{round}: {failure}");
        } else {
            drop(running);
        }
    }
    eventually(SOON, || {
        let left = (marked(&unique), zombies());
        if left == (vec![], 0) { Ok(()) } else { Err(left) }
    });
}

#[test]
fn a_command_dropped_with_its_runtime_is_killed() {
    let unique = unique_name("tree");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (seen, task) = (LogRecorder::default(), task(b""));
    let recorder = seen.clone();
    let settings = tree(&unique, "5s");
    runtime.block_on(async {
        tokio::spawn(async move {
            let runner = command(&settings).await;
            let context = recorder.context();
            let ran = runner.run(&task, &context).await;
            panic!("it ended: {ran:?}");
        });
        seen.wait_for_line("ready").await;
    });
    drop(runtime);
    eventually(SOON, || {
        let left = (marked(&unique), zombies());
        if left == (vec![], 0) { Ok(()) } else { Err(left) }
    });
}

#[test]
fn commands_die_with_their_host() {
    let unique = unique_name("tree");
    let variables = [("UNIQUE", &*unique)];
    let (mut host, mut stdout) = hosts::start("runs_a_tree_until_it_is_killed", &variables);
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "ready") {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).expect("a line"), 0, "the host ended: {lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    assert!(marked(&unique).len() >= 6, "{:?}", marked(&unique));
    assert!(is_alive(daemon(&lines)));
    host.kill().expect("it is alive");
    host.wait().expect("it is dead");
    eventually(SOON, || {
        let left = (marked(&unique), is_alive(daemon(&lines)));
        if left == (vec![], false) { Ok(()) } else { Err(left) }
    });
}
