//! Many commands, and commands with resource limits.

use std::sync::Arc;

use crore_runner::command::CommandFactory;
use crore_runner::{FailureClass, Options, Output, PositiveCount, RunFailure, RunnerFactory};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::processes::zombies;
use crate::command_fixture::{LogRecorder, command, run, task, text};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list of files").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_commands_eight_at_a_time_all_return_their_output() {
    let settings = json!({ "program": "echo", "payload": "lines" });
    assert!(run(&settings, b"first").await.is_ok());
    let (runner, before) = (Arc::new(command(&settings).await), open_files());
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let runner = Arc::clone(&runner);
        workers.spawn(async move {
            for n in 0..125 {
                let payload = format!("{worker} {n}");
                let task = task(payload.as_bytes());
                let output = runner.run(&task, &LogRecorder::default().context()).await;
                assert_eq!(text(&output.expect("it succeeds")), format!("{payload}\n"));
            }
        });
    }
    workers.join_all().await;
    assert_eq!(zombies(), 0);
    assert!(open_files() <= before, "{before} files were open, now {}", open_files());
}

async fn limited(program: &str, limits: Value) -> Result<Output, RunFailure> {
    run(&json!({ "program": program, "shell": true, "limits": limits }), b"").await
}

#[tokio::test]
async fn limits_hold() {
    let spin = limited("while :; do :; done", json!({ "cpu_seconds": 1 })).await;
    let failure = spin.expect_err("it times out");
    assert_eq!(
        (&*failure.error, failure.class),
        ("killed by SIGXCPU (signal 24)", FailureClass::Temporary)
    );
    let dir = tempfile::tempdir().expect("a directory");
    let write = format!("head -c 9000 /dev/zero >{}/large", dir.path().display());
    let failure = limited(&write, json!({ "file_size": "8KiB" })).await.expect_err("too large");
    assert!(failure.error.contains("exit code") || failure.error.contains("SIGXFSZ"), "{failure}");
    let length = std::fs::metadata(dir.path().join("large")).expect("a file").len();
    assert_eq!(length, 8192);
    let eat = "a=x; while :; do a=$a$a$a$a; done";
    assert!(limited(eat, json!({ "memory": "64MiB" })).await.is_err());
    let shown =
        limited("cat /proc/self/limits", json!({ "open_files": 17, "processes": 4000 })).await;
    let shown = text(&shown.expect("it succeeds"));
    for (name, n) in [("Max open files", "17"), ("Max processes", "4000")] {
        let line = shown.lines().find(|line| line.starts_with(name)).expect("a line of that name");
        let numbers: Vec<_> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(numbers, [n, n], "{line}");
    }
}

#[tokio::test]
async fn a_limited_program_has_its_arguments_and_its_input() {
    let settings = json!({ "program": "sh", "args": ["-c", "cat; echo \"$1\"", "x", "; id"], "limits": { "open_files": 50 } });
    assert_eq!(text(&run(&settings, b"in ").await.expect("it succeeds")), "in ; id\n");
}

#[tokio::test]
async fn a_program_with_limits_that_cannot_be_started_is_reported_like_any_other() {
    let limits = json!({ "open_files": 50 });
    for (program, reason) in [("/no/such", "not-found"), ("/etc/passwd", "not-executable")] {
        let failure = run(&json!({ "program": program, "limits": limits }), b"").await;
        let failure = failure.expect_err("it cannot be run");
        assert_eq!(
            (failure.class, &failure.detail["reason"]),
            (FailureClass::Fatal, &json!(reason))
        );
    }
}

#[tokio::test]
async fn the_operators_limits_hold_where_a_handler_sets_none() {
    let command_open_files = Some(PositiveCount(23));
    let maker = CommandFactory::new(Options { command_open_files, ..Options::default() });
    let settings = json!({ "program": "cat", "args": ["/proc/self/limits"], "payload": "none" });
    let runner = maker.make(&settings).await.expect("valid settings");
    let output =
        runner.run(&task(b""), &LogRecorder::default().context()).await.expect("it succeeds");
    let printed = text(&output);
    let line = printed.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    assert!(line.contains(" 23 "), "{line}");
}
