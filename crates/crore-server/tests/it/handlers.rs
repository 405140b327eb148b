//! Handlers, with the built binary and real programs.

use std::path::Path;
use std::process::{Child, Stdio};

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{LONG, Server, crore, dir};

const COMMANDS: &[&str] = &["--allow-runner", "command"];

fn set(server: &Server, kind: &str, handler: &Value) {
    let (status, answer) = server.call("PUT", &format!("/v1/handlers/{kind}"), Some(handler));
    assert_eq!(status, 200, "{answer}");
}

/// A handler whose jobs are shell scripts.
fn shell(script: &str) -> Value {
    json!({
        "runner": "command",
        "settings": { "program": script, "shell": true },
        "results": { "success": true, "failure": true },
        "retry": { "max_attempts": 3, "backoff": "constant", "base": "10ms", "jitter": 0 },
    })
}

fn push(server: &Server, kind: &str, payload: &Value) -> String {
    let pushed = server.post("/v1/jobs", &json!({ "kind": kind, "payload": payload }));
    pushed["id"].as_str().expect("an id").to_owned()
}

fn ended(server: &Server, id: &str) -> Value {
    let answer = server.get(&format!("/v1/jobs/{id}/result?wait=20s"));
    assert_eq!(answer["ended"], true, "{answer}");
    answer
}

fn output(server: &Server, id: &str) -> String {
    let ran = server.run(&["job", "result", id, "--for", "20s"]);
    ran.success()
}

fn start(dir: &Path, more: &[&str]) -> Server {
    Server::start(dir, &[COMMANDS, &["--set", "runners.shell=true"], more].concat())
}

/// Whether a process with this text in its arguments exists.
fn process_exists(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("a list").flatten();
    processes.into_iter().any(|process| {
        let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        arguments.windows(mark.len()).any(|part| part == mark.as_bytes())
    })
}

/// A `crore worker`.
struct Host(Child);

impl Host {
    fn start(dir: &Path, server: &Server, more: &[&str]) -> Self {
        let url = server.url();
        let common = ["worker", "--server", &url, "--set", "runners.shell=true"];
        let mut command = crore(dir, &[&common, COMMANDS, more].concat());
        Self(command.stderr(Stdio::null()).spawn().expect("started"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_first_steps_run_a_command_and_print_its_output() {
    let dir = dir();
    let server = Server::start(dir.path(), COMMANDS);
    let settings = r#"{"program": "echo", "args": ["hello"], "payload": "args"}"#;
    server.run(&["handler", "set", "hello", "command", settings, "--keep-result", "1h"]).success();
    server.run(&["job", "push", "hello", r#"["world"]"#]).success();
    assert_eq!(output(&server, "1"), "hello world\n");
    let waited = server.run(&["job", "wait", "1"]).success();
    assert!(waited.contains("hello world"), "{waited}");
    let notes = server.run(&["job", "get", "1", "--notes"]).success();
    assert!(notes.contains("hello world"), "{notes}");
    let listed = server.run(&["handler", "ls"]).success();
    assert!(listed.contains("hello") && listed.contains("command"), "{listed}");
    server.run(&["handler", "rm", "hello"]).success();
    assert_eq!(server.run(&["handler", "get", "hello"]).code, Some(3));
    server.stop();
}

#[test]
fn a_runner_that_is_not_allowed_is_refused_with_a_hint() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let refused = server.run(&["handler", "set", "a", "command", r#"{"program": "ls"}"#]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("--allow-runner command"), "{}", refused.err);
    let unknown = server.run(&["handler", "set", "a", "comand", "{}"]);
    assert!(
        unknown.err.contains("expected one of command, docker, grpc, http, slack"),
        "{}",
        unknown.err
    );
    let plugin = server.run(&["handler", "set", "a", "plugin", r#"{"plugin": "x"}"#]);
    assert_eq!(plugin.code, Some(1), "{plugin:?}");
    assert!(plugin.err.contains("`plugin` is not configured"), "{}", plugin.err);
    assert!(plugin.err.contains("`runners.plugins`"), "{}", plugin.err);
    server.stop();

    let server = Server::start(
        dir.path(),
        &["--allow-runner", "command", "--set", "runners.programs=/usr/bin/*"],
    );
    let bad = [
        (
            json!({ "runner": "command", "settings": { "program": "/etc/passwd" } }),
            "runner-forbidden",
        ),
        (json!({ "runner": "command", "settings": { "progam": "ls" } }), "field-unknown"),
        (json!({ "runner": "command", "settings": [] }), "malformed"),
        (
            json!({ "runner": "command", "settings": { "program": "ls" }, "timeout": "0s" }),
            "timeout-range",
        ),
        (
            json!({ "runner": "command", "settings": { "program": "ls" }, "evry": "1s" }),
            "field-unknown",
        ),
    ];
    for (handler, code) in bad {
        let (status, problem) = server.call("PUT", "/v1/handlers/a", Some(&handler));
        assert!((400..500).contains(&status), "{status} {problem}");
        assert_eq!(problem["code"], code, "{handler} {problem}");
    }
    assert_eq!(server.get("/v1/handlers")["handlers"], json!([]));
    server.stop();
}

#[test]
fn results_are_passed_on_and_failures_are_notified() {
    let dir = dir();
    let server = start(dir.path(), &[]);
    let mut first = shell("printf 'a\\nb\\nc\\n'");
    first["next"] = json!([{ "kind": "count" }]);
    set(&server, "first", &first);
    set(&server, "count", &shell("wc -l"));
    let mut dies = shell("echo oh no >&2; exit 7");
    dies["on_failure"] = json!([{ "kind": "heard", "gives": "summary" }]);
    set(&server, "dies", &dies);
    set(&server, "heard", &shell("cat"));

    push(&server, "first", &Value::Null);
    let dead = push(&server, "dies", &Value::Null);
    let job = |kind: &str| {
        eventually(LONG, || {
            let jobs = server.get(&format!("/v1/jobs?kind={kind}&state=done"));
            jobs["jobs"][0]["id"].as_str().map(str::to_owned)
        })
    };
    assert_eq!(output(&server, &job("count")).trim(), "3");
    let told: Value = serde_json::from_str(&output(&server, &job("heard"))).expect("JSON");
    assert_eq!(
        (&told["job"], &told["kind"], &told["state"]),
        (&json!(dead), &json!("dies"), &json!("dead"))
    );
    assert!(told["error"].as_str().is_some_and(|error| error.contains("oh no")), "{told}");
    let end = ended(&server, &dead);
    assert_eq!((&end["state"], &end["result"]["exit_code"]), (&json!("dead"), &json!(7)), "{end}");
    assert_eq!(end["result"]["class"], "again");
    assert_eq!(server.get(&format!("/v1/jobs/{dead}"))["attempt"], 3);
    server.stop();
}

#[test]
fn a_later_handler_runs_waiting_jobs_and_channels_are_independent() {
    let dir = dir();
    let server = start(dir.path(), &["--channel", "default=1", "--channel", "slow=1"]);
    let waiting = server.post("/v1/jobs", &json!({ "kind": "later", "queue": "default" }));
    let mut slow = shell("sleep 600");
    slow["queue"] = "slow".into();
    set(&server, "slow", &slow);
    let held = push(&server, "slow", &Value::Null);
    eventually(LONG, || {
        (server.get(&format!("/v1/jobs/{held}"))["state"] == "running").then_some(())
    });
    set(&server, "later", &shell("echo now"));
    assert_eq!(ended(&server, waiting["id"].as_str().expect("an id"))["state"], "done");
    // Cancelling it stops it.
    server.run(&["job", "cancel", &held]).success();
    assert_eq!(ended(&server, &held)["state"], "cancelled");
    server.stop();
}

#[test]
fn a_run_that_times_out_is_killed_with_its_processes() {
    let dir = dir();
    let server = start(dir.path(), &[]);
    let mark = format!("600.{}1", std::process::id());
    let mut slow = shell(&format!("sleep {mark} & sleep {mark}"));
    slow["timeout"] = "300ms".into();
    slow["settings"]["grace"] = "100ms".into();
    set(&server, "slow", &slow);
    let id = push(&server, "slow", &Value::Null);
    let end = ended(&server, &id);
    assert_eq!((&end["state"], &end["error"]), (&json!("dead"), &json!("timed out")), "{end}");
    let job = server.get(&format!("/v1/jobs/{id}"));
    assert_eq!(job["history"].as_array().map(Vec::len), Some(3), "{job}");
    eventually(LONG, || (!process_exists(&mark)).then_some(()));
    server.stop();
}

#[test]
fn a_thousand_commands_run_once_each_eight_at_a_time() {
    let dir = dir();
    let server = start(dir.path(), &["--channel", "default=8"]);
    let marks = tempfile::tempdir().expect("a directory");
    set(
        &server,
        "touch",
        &json!({
            "runner": "command",
            "settings": { "program": "mkdir", "payload": "args", "dir": marks.path() },
        }),
    );
    for hundred in 0..10 {
        let jobs: Vec<_> = (0..100)
            .map(|n| json!({ "kind": "touch", "payload": [format!("{hundred}-{n}")] }))
            .collect();
        server.post("/v1/jobs", &json!({ "jobs": jobs }));
    }
    let made = || std::fs::read_dir(marks.path()).expect("a list").count();
    eventually(LONG * 6, || (made() == 1000).then_some(()));
    let done = || {
        let counts = server.get("/v1/counts?queue=default");
        let all = counts["counts"].as_array().expect("a list").clone();
        all.iter().find(|count| count["state"] == "done").and_then(|count| count["n"].as_u64())
    };
    // `mkdir` fails the second time, so each job ran exactly once.
    eventually(LONG, || (done() == Some(1000)).then_some(()));
    assert_eq!(server.get("/v1/jobs?state=dead")["jobs"], json!([]));
    server.stop();
}

#[test]
fn a_remote_host_runs_jobs_and_finishes_them_on_shutdown() {
    let dir = dir();
    let server = start(dir.path(), &["--no-runners"]);
    set(&server, "a", &shell("sleep 0.3; echo done"));
    let id = push(&server, "a", &Value::Null);
    let workers = || server.get("/v1/workers")["workers"].as_array().map_or(0, Vec::len);
    assert_eq!(workers(), 0, "a server without runners runs nothing");
    let mut host = Host::start(dir.path(), &server, &["--name", "far"]);
    assert_eq!(output(&server, &id), "done\n");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["history"][0]["worker"], "far/default");
    let id = push(&server, "a", &Value::Null);
    eventually(LONG, || {
        (server.get(&format!("/v1/jobs/{id}"))["state"] == "running").then_some(())
    });
    let pid = host.0.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-s", "TERM", &pid])
            .status()
            .expect("kill")
            .success()
    );
    assert!(host.0.wait().expect("ended").success());
    assert_eq!(output(&server, &id), "done\n");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["attempt"], 1);
    server.stop();
}

#[test]
fn jobs_of_a_killed_host_run_on_another_and_it_leaves_nothing() {
    let dir = dir();
    let server = start(dir.path(), &["--no-runners"]);
    let mark = format!("600.{}2", std::process::id());
    // It hangs the first time, and not the second.
    let script = format!("if mkdir once; then sleep {mark}; fi; echo there");
    let mut handler = shell(&script);
    handler["settings"]["dir"] = dir.path().to_str().into();
    set(&server, "a", &handler);
    let id = push(&server, "a", &Value::Null);
    let mut first = Host::start(dir.path(), &server, &[]);
    eventually(LONG, || process_exists(&mark).then_some(()));
    first.0.kill().expect("killed");
    first.0.wait().expect("ended");
    let _second = Host::start(dir.path(), &server, &[]);
    // Its lease is longer than this wait.
    assert_eq!(output(&server, &id), "there\n");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["attempt"], 1, "it costs no attempt");
    eventually(LONG, || (!process_exists(&mark)).then_some(()));
    server.stop();
}

#[test]
fn a_killed_server_leaves_no_process_and_runs_its_jobs_after_a_restart() {
    let dir = dir();
    let mut server = start(dir.path(), &[]);
    let mark = format!("600.{}3", std::process::id());
    let mut handler = shell(&format!("if mkdir once; then sleep {mark}; fi; echo there"));
    handler["settings"]["dir"] = dir.path().to_str().into();
    set(&server, "a", &handler);
    let pushed = server.post("/v1/jobs", &json!({ "kind": "a", "lease": "1s" }));
    let id = pushed["id"].as_str().expect("an id").to_owned();
    eventually(LONG, || process_exists(&mark).then_some(()));
    server.signal("KILL");
    server.wait();
    eventually(LONG, || (!process_exists(&mark)).then_some(()));
    let server = start(dir.path(), &[]);
    assert_eq!(output(&server, &id), "there\n");
    server.stop();
}

#[test]
fn every_job_is_done_although_the_server_is_killed_repeatedly_during_runs() {
    let dir = dir();
    let marks = tempfile::tempdir().expect("a directory");
    let mark = format!("0.2{}4", std::process::id());
    let mut server = start(dir.path(), &["--channel", "default=4"]);
    let mut handler = shell(&format!("echo >> \"$CRORE_JOB\"; sleep {mark}; echo done"));
    handler["settings"]["dir"] = marks.path().to_str().into();
    handler["next"] = json!([{ "kind": "after" }]);
    set(&server, "a", &handler);
    set(&server, "after", &shell("cat"));
    let jobs: Vec<_> =
        (0..40).map(|_| json!({ "kind": "a", "lease": "1s", "max_crashes": null })).collect();
    server.post("/v1/jobs", &json!({ "jobs": jobs }));
    let runs = || std::fs::read_dir(marks.path()).expect("a list").count();
    for round in 1..=5 {
        eventually(LONG, || (runs() >= 4 * round).then_some(()));
        server.signal("KILL");
        server.wait();
        eventually(LONG, || (!process_exists(&mark)).then_some(()));
        server = start(dir.path(), &["--channel", "default=4"]);
    }
    let n = |kind: &str, state: &str| {
        let counts = server.get("/v1/counts?queue=default")["counts"].clone();
        let of = |count: &&Value| count["kind"] == kind && count["state"] == state;
        counts
            .as_array()
            .and_then(|all| all.iter().find(of))
            .map_or(0, |it| it["n"].as_u64().unwrap_or(0))
    };
    eventually(LONG * 3, || (n("after", "done") == 40).then_some(()));
    // The follow-up is pushed in the write that completes a job, so there is exactly one for each.
    assert_eq!((n("a", "done"), n("after", "done"), runs()), (40, 40, 40));
    assert_eq!(server.get("/v1/jobs?state=dead")["jobs"], json!([]));
    server.stop();
}

#[test]
fn a_stopping_server_lets_its_runners_finish() {
    let dir = dir();
    let mut server = start(dir.path(), &[]);
    set(&server, "a", &shell("sleep 0.5; echo done"));
    let id = push(&server, "a", &Value::Null);
    eventually(LONG, || {
        (server.get(&format!("/v1/jobs/{id}"))["state"] == "running").then_some(())
    });
    server.signal("TERM");
    assert!(server.wait().success());
    let server = start(dir.path(), &["--no-runners"]);
    assert_eq!(output(&server, &id), "done\n");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["attempt"], 1);
    server.stop();
}

#[test]
fn a_result_that_is_too_large_fails_its_job_and_frees_its_slot() {
    let dir = dir();
    let server = start(dir.path(), &["--channel", "default=1"]);
    let mut large = shell("head -c 3000000 /dev/zero | tr '\\0' x");
    large["settings"]["max_output"] = "16MiB".into();
    set(&server, "large", &large);
    set(&server, "small", &shell("echo here"));
    let id = push(&server, "large", &Value::Null);
    let end = ended(&server, &id);
    assert_eq!(end["state"], "dead", "{end}");
    assert!(end["error"].as_str().is_some_and(|error| error.contains("result")), "{end}");
    let id = push(&server, "small", &Value::Null);
    assert_eq!(output(&server, &id), "here\n");
    server.stop();
}

#[test]
fn jobs_running_at_the_drain_timeout_may_clean_up_and_are_returned() {
    let dir = dir();
    let mut server = start(dir.path(), &["--drain-for", "2s"]);
    let mut slow = shell(
        "trap 'sleep 0.3; touch cleaned; exit 1' TERM; touch begun; while :; do sleep 0.05; done",
    );
    slow["settings"]["dir"] = dir.path().to_str().into();
    slow["settings"]["grace"] = "5s".into();
    set(&server, "slow", &slow);
    let id = push(&server, "slow", &Value::Null);
    eventually(LONG, || dir.path().join("begun").exists().then_some(()));
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(dir.path().join("cleaned").exists());
    let server = start(dir.path(), &["--no-runners"]);
    let job = server.get(&format!("/v1/jobs/{id}"));
    assert_eq!((&job["state"], &job["attempt"]), (&json!("ready"), &json!(0)), "{job}");
    assert_eq!(job["history"][0]["ended"], "interrupted", "{job}");
    server.stop();
}

#[test]
fn a_server_without_runners_accepts_handlers_and_a_host_runs_only_allowed_ones() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--no-runners"]);
    set(&server, "a", &shell("echo far"));
    let wrong = json!({ "runner": "command", "settings": { "progam": "ls" } });
    assert_eq!(server.call("PUT", "/v1/handlers/b", Some(&wrong)).0, 400);
    let mut command = crore(dir.path(), &["worker", "--server", &server.url()]);
    let _may_not = Host(command.stderr(Stdio::null()).spawn().expect("started"));
    eventually(LONG, || {
        (server.get("/v1/workers")["workers"].as_array().map(Vec::len) == Some(1)).then_some(())
    });
    let ids: Vec<_> = (0..5).map(|_| push(&server, "a", &Value::Null)).collect();
    let _may = Host::start(dir.path(), &server, &[]);
    for id in ids {
        assert_eq!(output(&server, &id), "far\n");
    }
    server.stop();
}

#[test]
fn channels_may_be_a_section_of_the_file_and_errors_are_reported() {
    let dir = dir();
    std::fs::write(dir.path().join("crore.toml"), "[channels]\ndefault = 3\ngpu = 1\n")
        .expect("written");
    let server = Server::start(dir.path(), &["--channel", "gpu=2"]);
    let slots = |queue: &str| {
        eventually(LONG, || {
            let workers = server.get("/v1/workers")["workers"].clone();
            let of = |worker: &&Value| worker["stream"]["queues"][0] == queue;
            workers.as_array()?.iter().find(of)?["stream"]["slots"].as_u64()
        })
    };
    assert_eq!((slots("default"), slots("gpu")), (3, 2));
    server.stop();
    std::fs::write(dir.path().join("crore.toml"), "[channels]\ngpu = 0\n").expect("written");
    let checked = crate::binary::run(dir.path(), &["config", "check"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert!(
        checked.err.contains("gpu=0") && checked.err.contains("crore.toml:2"),
        "{}",
        checked.err
    );
}
