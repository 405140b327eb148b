//! How commands end, and what is told of it.

use crore_core::Encoding;
use crore_core::machine::Again;
use crore_runner::command::Command;
use crore_runner::{Class, Maker, Options, Patterns};
use serde_json::{Value, json};

use crate::given::{self, Ear, run, task, text};

fn script(text: &str) -> Value {
    json!({ "program": text, "shell": true })
}

#[tokio::test]
async fn what_is_printed_is_the_result() {
    let output = run(&json!({ "program": "echo", "args": ["-n", "hello"] }), b"").await;
    let output = output.expect("it went well");
    assert_eq!((text(&output), output.items[0].encoding), ("hello".to_owned(), Encoding::Text));
    let nothing = run(&json!({ "program": "true" }), b"").await.expect("it went well");
    assert_eq!(text(&nothing), "");
}

#[tokio::test]
async fn an_exit_code_that_is_no_success_is_tried_again_and_told_with_the_last_line() {
    let failure = run(&script("echo one >&2; echo; echo two >&2; echo >&2; exit 3"), b"").await;
    let failure = failure.expect_err("exit code 3");
    assert_eq!(failure.error, "exit code 3: two");
    assert_eq!((failure.class, failure.again), (Class::Again, Again::ByPolicy));
    assert_eq!(Value::from(failure.detail), json!({ "exit_code": 3, "stderr": "one\ntwo\n\n" }));
}

#[tokio::test]
async fn exit_codes_that_are_named_are_successes_and_others_are_not() {
    let settings =
        json!({ "program": "exit $1", "shell": true, "payload": "lines", "success": [1, 2] });
    for (code, is_success) in [("1", true), ("2", true), ("0", false), ("3", false)] {
        assert_eq!(run(&settings, code.as_bytes()).await.is_ok(), is_success, "{code}");
    }
    let any = json!({ "program": "exit 77", "shell": true, "success": "any" });
    assert!(run(&any, b"").await.is_ok());
}

#[tokio::test]
async fn a_signal_that_kills_it_is_told() {
    let failure = run(&script("echo oh >&2; kill -SEGV $$"), b"").await.expect_err("it was killed");
    assert_eq!(failure.error, "killed by SIGSEGV (signal 11): oh");
    assert_eq!(failure.detail["signal"], 11);
    assert_eq!(failure.class, Class::Again);
    let any = json!({ "program": "kill -TERM $$", "shell": true, "success": "any" });
    assert!(run(&any, b"").await.is_err());
}

#[tokio::test]
async fn what_cannot_be_run_at_all_is_not_tried_again() {
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
        ("/no/such/program".to_owned(), "not-found", "is not there"),
        (file("interpreter", 0o755, "#!/no/such/sh\n"), "not-found", "is not there"),
        (file("mode", 0o644, "#!/bin/sh\n"), "not-executable", "may not be executed"),
        (file("format", 0o755, "what is this"), "not-executable", "no program that this machine"),
        (dir.path().to_str().expect("a text").to_owned(), "not-executable", "may not be executed"),
    ];
    for (program, reason, error) in cases {
        let failure = run(&json!({ "program": program }), b"").await.expect_err("it cannot be run");
        assert!(failure.error.contains(error), "{failure}");
        assert_eq!((failure.class, failure.again), (Class::Fatal, Again::Never), "{failure}");
        assert_eq!(failure.detail["reason"], reason, "{failure}");
    }
    let lost = json!({ "program": "true", "dir": "/no/such/dir" });
    let failure = run(&lost, b"").await.expect_err("no directory");
    assert_eq!(failure.error, "settings.dir: `/no/such/dir` is no directory of the host");
}

#[tokio::test]
async fn arguments_that_the_system_does_not_take_are_told_with_their_field() {
    let settings = json!({ "program": "true", "payload": "lines" });
    let one = vec![b'x'; 2 << 20];
    let failure = run(&settings, &one).await.expect_err("too long");
    assert_eq!(failure.error, "payload: more arguments than the system takes");
    let many = b"x\n".repeat(10_000);
    assert!(run(&settings, &many).await.is_ok());
    let failure = run(&settings, b"a\0b").await.expect_err("a zero byte");
    assert_eq!(failure.error, "payload: argument 1 contains a zero byte");
    let own = json!({ "program": "true", "args": ["x".repeat(2 << 20)] });
    let failure = run(&own, b"").await.expect_err("too long");
    assert_eq!(failure.error, "settings.args: more arguments than the system takes");
    assert_eq!(failure.class, Class::Fatal);
}

#[tokio::test]
async fn a_program_that_is_not_allowed_is_not_run_by_any_of_its_names() {
    let programs: Patterns =
        ["/opt/*", "true"].iter().map(|p| p.parse().expect("a pattern")).collect();
    let maker = Command::new(Options { programs, ..Options::default() });
    let ran = async |program: &str| {
        let settings = json!({ "program": program });
        let runner = maker.make(&settings).await?;
        runner.run(&task(b""), &Ear::default().context()).await
    };
    assert!(ran("true").await.is_ok());
    for program in ["ls", "/bin/ls", "/opt/../bin/ls", "./ls", "bin/ls", "/bin/true"] {
        let failure = ran(program).await.expect_err("not allowed");
        assert_eq!(failure.class, Class::Fatal, "{program}: {failure}");
    }
    assert!(maker.check(&json!({ "program": "true", "shell": true })).is_err());
}

#[tokio::test]
async fn a_job_that_is_stopped_before_it_began_is_not_run() {
    let ear = Ear::default();
    ear.stop.cancel();
    let runner = given::command(&script("echo ran")).await;
    let failure = runner.run(&task(b""), &ear.context()).await.expect_err("stopped");
    assert_eq!(failure.class, Class::Stopped);
    assert_eq!(ear.lines(), [""; 0]);
}
