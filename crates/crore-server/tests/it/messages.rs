//! Messages of commands and of the start: they name what to change.

use crore_testkit::eventually;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;

use crate::binary::{KilledChild, LONG, Server, dir, run};

#[test]
fn a_wrong_value_is_refused_with_the_name_of_its_flag() {
    let dir = dir();
    // Nothing is sent, so no server is needed.
    for (arguments, flag) in [
        (&["job", "push", "a", "--delay", "soon"] as &[_], "--delay"),
        (&["job", "push", "a", "--due", "tomorrow"], "--due"),
        (&["job", "push", "a", "--timeout", "5x"], "--timeout"),
        (&["job", "push", "a", "--lease", "x"], "--lease"),
        (&["job", "push", "a", "--keep-result", "x"], "--keep-result"),
        (&["job", "push", "a", "--encoding", "binary"], "--encoding"),
        (&["job", "push", "a", "--backoff", "fast"], "--backoff"),
        (&["job", "push", "a", "--unique", "k", "--unique-hold", "long"], "--unique-hold"),
        (&["job", "ls", "--state", "asleep"], "--state"),
        (&["job", "rm", "--state", "asleep"], "--state"),
        (&["job", "rm", "--pushed-before", "noon"], "--pushed-before"),
        (&["job", "edit", "1", "--delay", "x"], "--delay"),
        (&["job", "wait", "1", "--for", "x"], "--for"),
        (&["queue", "set", "q", "--keep-done", "x"], "--keep-done"),
        (&["queue", "drain", "q", "--for", "x"], "--for"),
        (&["handler", "set", "k", "http", "--timeout", "x"], "--timeout"),
        (&["handler", "set", "k", "http", "--every", "x"], "--every"),
        (&["schedule", "set", "n", "every 1m", "k", "--missed", "some"], "--missed"),
    ] {
        let ran = run(dir.path(), arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(&format!("'{flag} <")), "{flag}: {}", ran.err);
        assert!(!ran.err.contains("column"), "{}", ran.err);
    }
    for arguments in [&["job", "push", "a", "{"] as &[_], &["handler", "set", "a", "http", "{"]] {
        let ran = run(dir.path(), arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("`{`") && !ran.err.contains("column"), "{}", ran.err);
    }
}

#[test]
fn errors_of_the_server_name_no_position_in_a_body_that_the_command_has_made() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let ran = server.run(&["job", "push", "a", "--after", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("after[0].job") && !ran.err.contains("column"), "{}", ran.err);
    server.stop();
}

#[test]
fn a_schedule_has_no_flags_that_make_sense_for_one_job_only() {
    let dir = dir();
    for (flag, value) in [("--due", "2027-01-01T00:00:00Z"), ("--client-id", "mine")] {
        let ran = run(dir.path(), &["schedule", "set", "n", "every 1m", "k", flag, value]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(&format!("'{flag}'")), "{}", ran.err);
    }
    let server = Server::start(dir.path(), &["--memory"]);
    for (field, value) in [("due", "2027-01-01T00:00:00Z"), ("client_id", "mine")] {
        let schedule = json!({ "timing": "every 1m", "job": { "kind": "k", field: value } });
        let (status, problem) = server.call("PUT", "/v1/schedules/n", Some(&schedule));
        assert_eq!((status, &problem["field"]), (400, &json!(format!("job.{field}"))), "{problem}");
    }
    server.stop();
}

#[test]
fn the_start_shows_commands_with_all_that_a_caller_needs() {
    let dir = dir();
    let plain = Server::start(dir.path(), &["--memory"]);
    let said = plain.stdout();
    assert!(!said.contains("authorization") && !said.contains("--cacert"), "{said}");
    plain.stop();

    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["jobs.example.com".to_owned()]).expect("a certificate");
    std::fs::write(dir.path().join("cert.pem"), cert.pem()).expect("written");
    std::fs::write(dir.path().join("key.pem"), signing_key.serialize_pem()).expect("written");
    let create = ["token", "create", "ops", "--preset", "admin", "--data", "crore-data"];
    let token = run(dir.path(), &create).success();
    let set = ["tls.certificate=cert.pem", "tls.key=key.pem", "listen.hosts=jobs.example.com"];
    let flags: Vec<_> = set.iter().flat_map(|one| ["--set", one]).collect();
    let server = Server::start(dir.path(), &flags);
    let said = server.stdout();
    let line = said.lines().find(|line| line.contains("curl") && line.contains("/v1/jobs"));
    let line = line.unwrap_or_else(|| panic!("{said}")).trim();
    assert!(line.contains("--cacert cert.pem") && line.contains("$CRORE_TOKEN"), "{line}");
    // The command works as it is printed.
    let port = server.address.port();
    let resolve = format!("jobs.example.com:{port}:127.0.0.1");
    let mut shell = std::process::Command::new("sh");
    let command = line.replacen("curl", &format!("curl -sS --resolve {resolve}"), 1);
    shell.args(["-c", &command]).env("CRORE_TOKEN", token.trim()).current_dir(dir.path());
    let output = shell.output().expect("curl runs");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains(r#""status":"new""#), "{output:?}");
    server.stop();
}

#[test]
fn a_job_whose_handler_has_no_channel_says_which_one_is_missing() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let settings = r#"{"url": "https://example.com/"}"#;
    server.run(&["handler", "set", "render", "http", settings, "--queue", "gpu"]).success();
    let id = server.run(&["job", "push", "render", "-q"]).success().trim().to_owned();
    let why = server.run(&["job", "get", &id, "--why"]).success();
    assert!(why.contains("no host serves the channel `gpu`"), "{why}");
    assert!(why.contains("--channel gpu=1"), "{why}");
    // Without a handler, a worker is missing.
    let other = server.run(&["job", "push", "mail", "-q"]).success().trim().to_owned();
    let why = server.run(&["job", "get", &other, "--why"]).success();
    assert!(why.contains("no worker on this server is waiting"), "{why}");
    // With a host for the channel, it is no longer the reason.
    let host = KilledChild::start(&server, &["worker", "--channel", "gpu=1"]);
    eventually(LONG, || {
        let why = server.run(&["job", "get", &id, "--why"]).success();
        (!why.contains("no host serves")).then_some(()).ok_or(why)
    });
    drop(host);
    server.stop_soon();
}

#[test]
fn a_refused_action_names_the_state_of_the_job_and_the_states_that_allow_it() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let push = |kind: &str| server.run(&["job", "push", kind, "-q"]).success().trim().to_owned();
    let (ready, running, cancelled) = (push("ready"), push("running"), push("cancelled"));
    server.post("/v1/fetch", &json!({ "queues": ["running"], "worker": "w" }));
    server.run(&["job", "cancel", &cancelled]).success();
    let refused = |arguments: &[&str]| {
        let ran = server.run(arguments);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        ran.err
    };
    for (arguments, why) in [
        (
            &["job", "retry", &ready] as &[_],
            "is ready and cannot be retried; only scheduled, dead and cancelled jobs can",
        ),
        (
            &["job", "cancel", &cancelled],
            "is cancelled and cannot be cancelled; only waiting, scheduled, ready and running jobs can",
        ),
        (
            &["job", "rm", &running],
            "is running and cannot be deleted; only waiting, scheduled, ready, done, dead and cancelled jobs can",
        ),
        (
            &["job", "edit", &running, "--priority", "1"],
            "is running and cannot be changed; only waiting, scheduled and ready jobs can",
        ),
    ] {
        let err = refused(arguments);
        assert!(err.contains(&format!("job {} {why}", arguments[2])), "{err}");
    }
    server.run(&["job", "cancel", &running]).success();
    let err = refused(&["job", "cancel", &running]);
    assert!(err.contains("is running and has already been asked to stop"), "{err}");
    server.stop_soon();
}
