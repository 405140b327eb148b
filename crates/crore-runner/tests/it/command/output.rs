//! The output of commands.

use std::time::Duration;

use crore_core::Encoding;
use crore_runner::FailureClass;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::processes::{is_alive, status, zombies};
use crate::command_fixture::{LogRecorder, command, run, task, text};

fn script(text: &str) -> Value {
    json!({ "program": text, "shell": true })
}

#[tokio::test]
async fn both_streams_are_logged_by_line_during_the_run() {
    let recorder = LogRecorder::default();
    let runner =
        command(&script("echo one; echo two >&2; printf three; read line; echo $line")).await;
    let (task, context) = (task(b"four\n"), recorder.context());
    let output = runner.run(&task, &context).await.expect("it succeeds");
    assert_eq!(text(&output), "one\nthreefour\n");
    let mut lines = recorder.lines();
    lines.sort();
    assert_eq!(lines, ["one", "threefour", "two"]);
}

#[tokio::test]
async fn standard_error_follows_the_output_if_configured() {
    let settings = json!({ "program": "echo e >&2; echo o", "shell": true, "stderr": "result" });
    assert_eq!(text(&run(&settings, b"").await.expect("it succeeds")), "o\ne\n");
    let failing = json!({ "program": "echo e >&2; exit 1", "shell": true, "stderr": "result" });
    assert_eq!(run(&failing, b"").await.expect_err("exit code 1").error, "exit code 1: e");
}

#[tokio::test]
async fn bytes_that_are_not_text_are_kept_and_shown_with_replacements() {
    let recorder = LogRecorder::default();
    let runner = command(&script("printf 'a\\377b\\n'; printf '\\376\\n' >&2; exit $1")).await;
    let output = runner.run(&task(b""), &recorder.context()).await.expect("it succeeds");
    assert_eq!(&output.items[0].bytes[..], b"a\xffb\n");
    assert_eq!(output.items[0].encoding, Encoding::Bytes);
    let mut lines = recorder.lines();
    lines.sort();
    assert_eq!(lines, ["a\u{fffd}b", "\u{fffd}"]);
    let failure =
        run(&script("printf '\\376\\n' >&2; exit 1"), b"").await.expect_err("exit code 1");
    assert_eq!(failure.detail["stderr"], "\u{fffd}\n");
}

#[tokio::test]
async fn a_command_over_the_output_limit_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let settings = json!({
        "program": "echo $$ >$FILE; exec cat /dev/zero",
        "shell": true,
        "env": { "FILE": &file },
        "max_output": "2KiB",
    });
    let failure = run(&settings, b"").await.expect_err("too much");
    assert_eq!(failure.error, "output exceeds `settings.max_output`, which is `2KiB`");
    assert_eq!(failure.class, FailureClass::Other);
    let pid = std::fs::read_to_string(file).expect("it was written");
    let pid = pid.trim().parse().expect("a process");
    assert!(!is_alive(pid));
    let settings =
        json!({ "program": "head", "args": ["-c", "2048", "/dev/zero"], "max_output": "2KiB" });
    assert_eq!(run(&settings, b"").await.expect("it fits").items[0].bytes.len(), 2048);
    let both = "head -c 1500 /dev/zero; head -c 1500 /dev/zero >&2";
    let both = json!({ "program": both, "shell": true, "max_output": "2KiB", "stderr": "result" });
    assert!(run(&both, b"").await.is_err());
}

#[tokio::test]
async fn a_gibibyte_of_output_is_not_buffered() {
    let before = status("VmHWM");
    for (text, is_ok) in [
        ("head -c 1G /dev/zero", false),
        ("head -c 1G /dev/zero >&2", true),
        ("yes 'a line of a log' | head -c 1G >&2", true),
    ] {
        let recorder = LogRecorder::default();
        let ran = command(&script(text)).await.run(&task(b""), &recorder.context()).await;
        assert_eq!(ran.is_ok(), is_ok, "{text}: {ran:?}");
        let bytes: usize = recorder.lines().iter().map(String::len).sum();
        assert!(bytes < 16 << 20, "{text}: {bytes} bytes were logged");
    }
    let grown = status("VmHWM") - before;
    assert!(grown < 64 << 10, "{grown} KiB");
}

#[tokio::test]
async fn a_command_may_close_its_output_and_continue() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    let settings = json!({
        "program": "echo first; exec >&- 2>&-; sleep 0.2; echo done >$FILE",
        "shell": true,
        "env": { "FILE": &file },
    });
    assert_eq!(text(&run(&settings, b"").await.expect("it succeeds")), "first\n");
    assert_eq!(std::fs::read_to_string(file).expect("it was written"), "done\n");
}

#[tokio::test]
async fn a_command_need_not_read_its_input() {
    let payload = vec![b'x'; 1 << 20];
    for text in ["true", "exec <&-; sleep 0.1", "sleep 0.1", "head -c 10 >/dev/null"] {
        let ran = timeout(Duration::from_secs(20), run(&script(text), &payload)).await;
        ran.expect("it ends").expect("it succeeds");
    }
    assert_eq!(zombies(), 0);
}

#[tokio::test]
async fn secrets_are_in_no_error_and_in_no_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("secret");
    std::fs::write(&file, "hush-hush\n").expect("written");
    let settings = json!({
        "program": "echo out $TOKEN; echo err $TOKEN >&2; exit 1",
        "shell": true,
        "env": { "TOKEN": format!("file:{}", file.display()) },
    });
    let recorder = LogRecorder::default();
    let runner = command(&settings).await;
    let failure = runner.run(&task(b""), &recorder.context()).await.expect_err("exit code 1");
    assert_eq!(failure.error, "exit code 1: err ***");
    assert_eq!(failure.detail["stderr"], "err ***\n");
    let mut lines = recorder.lines();
    lines.sort();
    assert_eq!(lines, ["err ***", "out ***"]);
    assert!(!format!("{runner:?} {failure:?}").contains("hush"));
    std::fs::remove_file(&file).expect("it existed");
    let failure = runner.run(&task(b""), &recorder.context()).await.expect_err("no secret");
    let expected = format!("the secret `file:{}` cannot be read: entity not found", file.display());
    assert_eq!((failure.error, failure.class), (expected, FailureClass::Fatal));
}
