//! Hosts in processes of their own: this test binary, started again with one of the tests here.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use super::gone::TREE;
use crate::command_fixture::{LogRecorder, command, run as run_command, task, text};

/// Starts a host.
pub(super) fn start(name: &str, variables: &[(&str, &str)]) -> (Child, BufReader<ChildStdout>) {
    let mut host = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", &format!("command::hosts::{name}"), "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a host");
    let stdout = BufReader::new(host.stdout.take().expect("a pipe"));
    (host, stdout)
}

/// Runs a host to its end and returns its output.
pub(super) fn run(name: &str, variables: &[(&str, &str)]) -> String {
    let (mut host, stdout) = start(name, variables);
    let lines: Vec<_> = stdout.lines().map(|line| line.expect("a line")).collect();
    assert!(host.wait().expect("an end").success(), "{lines:?}");
    lines.join("\n")
}

#[tokio::test]
#[ignore = "a host that other tests start"]
async fn prints_its_environment() {
    println!("host: {}", std::env::var_os("LD_PRELOAD").expect("a variable").display());
    let output = run_command(&json!({ "program": "env" }), b"").await.expect("it succeeds");
    println!("{}", text(&output));
}

#[tokio::test]
#[ignore = "a host that other tests start"]
async fn runs_a_tree_until_it_is_killed() {
    let unique = std::env::var_os("UNIQUE").expect("a variable").into_string().expect("a text");
    let settings = json!({ "program": TREE, "shell": true, "env": { "UNIQUE": unique } });
    let (recorder, runner) = (LogRecorder::default(), command(&settings).await);
    let (task, context) = (task(b""), recorder.context());
    let ready = async {
        recorder.wait_for_line("ready").await;
        recorder.lines().iter().for_each(|line| println!("{line}"));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = runner.run(&task, &context) => panic!("it ended: {ended:?}"),
        () = ready => unreachable!("it waits for ever"),
    }
}
