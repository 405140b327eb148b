//! Nothing of a run is left when it is over.

use std::io::BufRead;
use std::time::Duration;

use crore_runner::Class;
use crore_testkit::{Dice, eventually, unique_name};
use rustix::process::{Pid, set_child_subreaper};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::hosts;
use super::processes::{is_alive, marked, zombies};
use crate::given::{Ear, command, run, task, text};

/// A shell with a child, a child in a session of its own, a daemon that has forked twice, one more
/// that ignores being asked to end, and one without an environment, which says who it is.
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

/// The daemon without an environment that a tree has told of.
fn daemon(lines: &[String]) -> u32 {
    let pid = lines.iter().find_map(|line| line.strip_prefix("daemon ")?.parse().ok());
    pid.expect("it was told")
}

const SOON: Duration = Duration::from_secs(20);

fn tree(unique: &str, grace: &str) -> Value {
    json!({ "program": TREE, "shell": true, "env": { "UNIQUE": unique }, "grace": grace })
}

#[tokio::test]
async fn a_child_that_was_left_in_the_background_is_gone_though_it_holds_the_output_open() {
    let settings = json!({ "program": "sleep 1000 & echo $!", "shell": true });
    let output = timeout(SOON, run(&settings, b"")).await.expect("it does not wait for the child");
    let pid = text(&output.expect("it went well")).trim().parse().expect("a process");
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn daemons_are_gone_however_they_got_away() {
    no_daemon_stays().await;
}

#[tokio::test]
async fn daemons_are_gone_though_they_are_children_of_a_host_that_is_the_parent_of_all_orphans() {
    // As the first process of a container is. This holds for the process of this test alone.
    set_child_subreaper(Some(Pid::INIT)).expect("anybody may");
    no_daemon_stays().await;
}

async fn no_daemon_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    // Each says who it is, and then sleeps; the script waits until it has said so.
    let ways = [
        "setsid sh -c \"$SAY\" &",
        "(setsid sh -c \"$SAY\" &)",
        "(setsid sh -c '(setsid sh -c \"$SAY\" &)' &)",
        "setsid nohup sh -c \"$SAY\" </dev/null >/dev/null 2>&1 &",
        "env -i FILE=$FILE sh -c \"$SAY\" &",
        // Those that leave nothing to be known by but the limit, which is set once the script runs.
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
            let pid = text(&output.expect("it went well")).trim().parse().expect("a process");
            assert!(!is_alive(pid), "{way} {pause}");
            std::fs::remove_file(&file).expect("it was written");
        }
    }
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn those_that_end_at_once_are_waited_for_by_a_host_that_is_the_parent_of_all_orphans() {
    set_child_subreaper(Some(Pid::INIT)).expect("anybody may");
    // They drop all that they could be known by, and are gone before anybody has looked.
    let script = "for i in 1 2 3 4 5 6 7 8; do (env -i setsid true &); done";
    for _ in 0..20 {
        let settings = json!({ "program": script, "shell": true });
        timeout(SOON, run(&settings, b"")).await.expect("it ends").expect("it went well");
        assert_eq!(zombies(), 0);
    }
}

#[tokio::test]
async fn a_leader_that_left_its_group_is_ended_too() {
    let script = "setpgrp(0, getpgrp(getppid)); $| = 1; $SIG{TERM} = 'IGNORE'; print qq(ready\\n); sleep 1000";
    let settings = json!({ "program": "perl", "args": ["-e", script], "grace": "50ms" });
    let (ear, runner) = (Ear::default(), command(&settings).await);
    let (task, context) = (task(b""), ear.context());
    let stop = async {
        ear.hear("ready").await;
        ear.stop.cancel();
    };
    let ran = timeout(SOON, async { tokio::join!(runner.run(&task, &context), stop) }).await;
    assert_eq!(ran.expect("it ends").0.expect_err("it was stopped").class, Class::Stopped);
}

#[tokio::test]
async fn what_is_stopped_is_asked_to_end_and_may_tidy_up() {
    let script = "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let ear = Ear::default();
    let runner = command(&json!({ "program": script, "shell": true })).await;
    let (task, context) = (task(b""), ear.context());
    let stop = async {
        ear.hear("ready").await;
        ear.stop.cancel();
    };
    let (ran, ()) = timeout(SOON, async { tokio::join!(runner.run(&task, &context), stop) })
        .await
        .expect("it ends");
    assert_eq!(ran.expect_err("it was stopped").class, Class::Stopped);
    assert!(ear.lines().contains(&"tidied".to_owned()), "{:?}", ear.lines());
}

#[tokio::test]
async fn a_child_has_the_same_grace_as_its_parent() {
    let script = "
        sh -c 'trap \"sleep 0.2; echo tidied; exit 0\" TERM; echo ready; while :; do sleep 0.01; done' &
        wait";
    let ear = Ear::default();
    let runner = command(&json!({ "program": script, "shell": true })).await;
    let (task, context) = (task(b""), ear.context());
    let stop = async {
        ear.hear("ready").await;
        ear.stop.cancel();
    };
    let (ran, ()) = tokio::join!(runner.run(&task, &context), stop);
    assert_eq!(ran.expect_err("it was stopped").class, Class::Stopped);
    assert!(ear.lines().contains(&"tidied".to_owned()), "{:?}", ear.lines());
}

#[tokio::test]
async fn what_ignores_being_asked_is_killed_after_the_grace() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let settings = json!({ "program": script, "shell": true, "grace": "100ms" });
    let (ear, runner) = (Ear::default(), command(&settings).await);
    let (task, context) = (task(b""), ear.context());
    let stop = async {
        ear.hear("ready").await;
        ear.stop.cancel();
    };
    let ran = timeout(SOON, async { tokio::join!(runner.run(&task, &context), stop) }).await;
    assert_eq!(ran.expect("it ends").0.expect_err("it was stopped").class, Class::Stopped);
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn a_whole_tree_is_gone_when_a_stop_is_answered() {
    let unique = unique_name("tree");
    let (ear, runner) = (Ear::default(), command(&tree(&unique, "100ms")).await);
    let (task, context) = (task(b""), ear.context());
    let stop = async {
        ear.hear("ready").await;
        assert!(marked(&unique).len() >= 5, "{:?}", marked(&unique));
        assert!(is_alive(daemon(&ear.lines())));
        ear.stop.cancel();
    };
    let (ran, ()) = tokio::join!(runner.run(&task, &context), stop);
    assert_eq!(ran.expect_err("it was stopped").class, Class::Stopped);
    assert_eq!((marked(&unique), zombies()), (vec![], 0));
    assert!(!is_alive(daemon(&ear.lines())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_and_drops_at_any_moment_leave_nothing() {
    let unique = unique_name("tree");
    let runner = command(&tree(&unique, "20ms")).await;
    let mut dice = Dice(7);
    for round in 0..40 {
        let moment = Duration::from_micros(dice.below(120_000));
        let (ear, task) = (Ear::default(), task(b""));
        let context = ear.context();
        let mut running = runner.run(&task, &context);
        let ended = timeout(moment, &mut running).await;
        assert!(ended.is_err(), "{round}: {ended:?}");
        if dice.percent(50) {
            ear.stop.cancel();
            let failure = running.await.expect_err("it was stopped");
            assert_eq!(failure.class, Class::Stopped, "{round}: {failure}");
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
fn what_is_dropped_when_its_runtime_ends_is_gone() {
    let unique = unique_name("tree");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (seen, task) = (Ear::default(), task(b""));
    let ear = seen.clone();
    let settings = tree(&unique, "5s");
    runtime.block_on(async {
        tokio::spawn(async move {
            let runner = command(&settings).await;
            let context = ear.context();
            let ran = runner.run(&task, &context).await;
            panic!("it ended: {ran:?}");
        });
        seen.hear("ready").await;
    });
    drop(runtime);
    eventually(SOON, || {
        let left = (marked(&unique), zombies());
        if left == (vec![], 0) { Ok(()) } else { Err(left) }
    });
}

#[test]
fn what_a_host_has_started_dies_with_it() {
    let unique = unique_name("tree");
    let variables = [("UNIQUE", &*unique)];
    let (mut host, mut said) = hosts::start("runs_a_tree_until_it_is_killed", &variables);
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "ready") {
        let mut line = String::new();
        assert_ne!(said.read_line(&mut line).expect("a line"), 0, "the host ended: {lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    assert!(marked(&unique).len() >= 6, "{:?}", marked(&unique));
    assert!(is_alive(daemon(&lines)));
    host.kill().expect("it lives");
    host.wait().expect("it is dead");
    eventually(SOON, || {
        let left = (marked(&unique), is_alive(daemon(&lines)));
        if left == (vec![], false) { Ok(()) } else { Err(left) }
    });
}
