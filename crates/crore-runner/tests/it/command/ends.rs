//! How commands end, and how failures are reported.

use crore_core::Encoding;
use crore_core::machine::RetryDirective;
use crore_runner::command::CommandFactory;
use crore_runner::{FailureClass, Options, Patterns, RunnerFactory};
use serde_json::{Value, json};

use crate::command_fixture::{self, LogRecorder, run, task, text};

fn script(text: &str) -> Value {
    json!({ "program": text, "shell": true })
}

#[tokio::test]
async fn standard_output_is_the_result() {
    let output = run(&json!({ "program": "echo", "args": ["-n", "hello"] }), b"").await;
    let output = output.expect("it succeeds");
    assert_eq!((text(&output), output.items[0].encoding), ("hello".to_owned(), Encoding::Text));
    let nothing = run(&json!({ "program": "true" }), b"").await.expect("it succeeds");
    assert_eq!(text(&nothing), "");
}

#[tokio::test]
async fn an_unsuccessful_exit_code_is_retried_and_reported_with_the_last_line() {
    let failure = run(&script("echo one >&2; echo; echo two >&2; echo >&2; exit 3"), b"").await;
    let failure = failure.expect_err("exit code 3");
    assert_eq!(failure.error, "exit code 3: two");
    assert_eq!((failure.class, failure.retry), (FailureClass::Temporary, RetryDirective::ByPolicy));
    assert_eq!(Value::from(failure.detail), json!({ "exit_code": 3, "stderr": "one\ntwo\n\n" }));
}

#[tokio::test]
async fn only_configured_exit_codes_are_successes() {
    let settings =
        json!({ "program": "exit $1", "shell": true, "payload": "lines", "success": [1, 2] });
    for (code, is_success) in [("1", true), ("2", true), ("0", false), ("3", false)] {
        assert_eq!(run(&settings, code.as_bytes()).await.is_ok(), is_success, "{code}");
    }
    let any = json!({ "program": "exit 77", "shell": true, "success": "any" });
    assert!(run(&any, b"").await.is_ok());
}

#[tokio::test]
async fn death_by_a_signal_is_reported() {
    let failure = run(&script("echo oh >&2; kill -SEGV $$"), b"").await.expect_err("it was killed");
    assert_eq!(failure.error, "killed by SIGSEGV (signal 11): oh");
    assert_eq!(failure.detail["signal"], 11);
    assert_eq!(failure.class, FailureClass::Temporary);
    let any = json!({ "program": "kill -TERM $$", "shell": true, "success": "any" });
    assert!(run(&any, b"").await.is_err());
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_not_retried() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, mode: u32, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
        path.to_str().expect("a text").to_owned()
    };
    let cases = [
        ("no-such-program".to_owned(), "not-found", "is not on the `PATH` of the host"),
        ("/no/such/program".to_owned(), "not-found", "does not exist"),
        (file("interpreter", 0o755, "#!/no/such/sh\n"), "not-found", "does not exist"),
        (file("mode", 0o644, "#!/bin/sh\n"), "not-executable", "is not executable"),
        (file("format", 0o755, "what is this"), "not-executable", "has an unknown format"),
        (dir.path().to_str().expect("a text").to_owned(), "not-executable", "is not executable"),
    ];
    for (program, reason, error) in cases {
        let failure = run(&json!({ "program": program }), b"").await.expect_err("it cannot be run");
        assert!(failure.error.contains(error), "{failure}");
        assert_eq!(
            (failure.class, failure.retry),
            (FailureClass::Fatal, RetryDirective::Never),
            "{failure}"
        );
        assert_eq!(failure.detail["reason"], reason, "{failure}");
    }
    let lost = json!({ "program": "true", "dir": "/no/such/dir" });
    let failure = run(&lost, b"").await.expect_err("no directory");
    assert_eq!(failure.error, "settings.dir: `/no/such/dir` is not a directory on the host");
}

#[tokio::test]
async fn arguments_that_the_system_refuses_are_reported_with_their_field() {
    let settings = json!({ "program": "true", "payload": "lines" });
    let one = vec![b'x'; 2 << 20];
    let failure = run(&settings, &one).await.expect_err("too long");
    assert_eq!(failure.error, "payload: argument list too long for the system");
    let many = b"x\n".repeat(10_000);
    assert!(run(&settings, &many).await.is_ok());
    let failure = run(&settings, b"a\0b").await.expect_err("a zero byte");
    assert_eq!(failure.error, "payload: argument 1 contains a zero byte");
    let own = json!({ "program": "true", "args": ["x".repeat(2 << 20)] });
    let failure = run(&own, b"").await.expect_err("too long");
    assert_eq!(failure.error, "settings.args: argument list too long for the system");
    assert_eq!(failure.class, FailureClass::Fatal);
}

#[tokio::test]
async fn a_program_that_is_not_allowed_is_not_run_by_any_of_its_names() {
    let programs: Patterns =
        ["/opt/*", "true"].iter().map(|p| p.parse().expect("a pattern")).collect();
    let maker = CommandFactory::new(Options { programs, ..Options::default() });
    let ran = async |program: &str| {
        let settings = json!({ "program": program });
        let runner = maker.make(&settings).await?;
        runner.run(&task(b""), &LogRecorder::default().context()).await
    };
    assert!(ran("true").await.is_ok());
    for program in ["ls", "/bin/ls", "/opt/../bin/ls", "./ls", "bin/ls", "/bin/true"] {
        let failure = ran(program).await.expect_err("not allowed");
        assert_eq!(failure.class, FailureClass::Fatal, "{program}: {failure}");
    }
    assert!(maker.check(&json!({ "program": "true", "shell": true })).is_err());
}

#[tokio::test]
async fn a_job_stopped_before_its_start_is_not_run() {
    let recorder = LogRecorder::default();
    recorder.stop.cancel();
    let runner = command_fixture::command(&script("echo ran")).await;
    let failure = runner.run(&task(b""), &recorder.context()).await.expect_err("stopped");
    assert_eq!(failure.class, FailureClass::Stopped);
    assert_eq!(recorder.lines(), [""; 0]);
}
