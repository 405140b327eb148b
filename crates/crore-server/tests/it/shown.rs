//! Output of commands in each format, and flags for the fields of the API.

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{FinishedCommand, KilledChild, LONG, Server, dir, run};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn server(dir: &std::path::Path) -> Server {
    Server::start(dir, &["--memory"])
}

/// Fetches the next job of a queue as a worker of this name.
fn fetch(server: &Server, queue: &str, worker: &str) -> Value {
    server.post("/v1/fetch", &json!({ "queues": [queue], "worker": worker }))["jobs"][0].clone()
}

fn finish(server: &Server, job: &Value, mut report: Value) {
    report["id"] = job["id"].clone();
    report["delivery"] = job["delivery"].clone();
    server.post("/v1/finish", &json!({ "jobs": [report] }));
}

#[test]
fn payloads_of_every_encoding_are_pushed_from_files_and_arguments() {
    let dir = dir();
    let server = server(dir.path());
    let file = dir.path().join("page.bin");
    std::fs::write(&file, b"\xff\x00binary").expect("written");
    let path = file.display().to_string();
    server.run(&["job", "push", "scan", "--file", &path, "--encoding", "bytes"]).success();
    server.run(&["job", "push", "scan", "plain words", "--encoding", "text"]).success();
    let lines = server.run_on(&["job", "push", "scan", "-", "--encoding", "text"], "one\ntwo\n");
    assert_eq!(lines.success(), "pushed 2 jobs\n");
    let job = |id: &str| server.get(&format!("/v1/jobs/{id}"));
    let bytes = job("1");
    assert_eq!(
        (&bytes["encoding"], &bytes["payload_base64"]),
        (&json!("bytes"), &json!("/wBiaW5hcnk="))
    );
    assert_eq!(
        (&job("2")["encoding"], &job("4")["payload_base64"]),
        (&json!("text"), &json!("dHdv"))
    );
    let shown = server.run(&["job", "get", "2"]).success();
    assert!(shown.contains("plain words") && !shown.contains("base64"), "{shown}");
    let not_json = server.run(&["job", "push", "scan", "--file", &path]);
    assert_eq!(not_json.code, Some(2), "{not_json:?}");
    assert!(not_json.err.contains("--encoding"), "{}", not_json.err);
    server.stop();
}

#[test]
fn the_history_of_a_job_is_shown_as_lines() {
    let dir = dir();
    let server = server(dir.path());
    server.run(&["job", "push", "mail", "--backoff", "none"]).success();
    for (worker, error) in [("w1", "asleep"), ("w2", "out of paper")] {
        let job = fetch(&server, "mail", worker);
        server.post("/v1/notes", &json!({ "notes": [
            { "id": job["id"], "delivery": job["delivery"], "text": format!("a note of {worker}") } ] }));
        finish(&server, &job, json!({ "outcome": "failed", "error": error }));
    }
    server.run(&["job", "edit", "1", "--priority", "3"]).success();
    let shown = server.run(&["job", "get", "1", "--notes"]).success();
    let line = |words: &[&str]| {
        shown
            .lines()
            .any(|line| words.iter().all(|word| line.split_whitespace().any(|w| w == *word)))
    };
    assert!(line(&["AT", "EVENT", "DURATION", "BY", "DETAIL"]), "{shown}");
    assert!(line(&["failed", "w1", "asleep"]) && line(&["failed", "w2", "paper"]), "{shown}");
    assert!(line(&["edit", "loopback", "priority", "3"]), "{shown}");
    assert!(line(&["note", "w1"]) && !shown.contains('['), "{shown}");
    server.stop();
}

#[test]
fn text_results_are_shown_as_text() {
    let dir = dir();
    let server = server(dir.path());
    server.run(&["job", "push", "mail", "--keep-result", "1h"]).success();
    let job = fetch(&server, "mail", "w");
    finish(
        &server,
        &job,
        json!({ "outcome": "done", "result_base64": "c2VudCB0byBhZGEK", "encoding": "text" }),
    );
    assert_eq!(server.run(&["job", "result", "1"]).success(), "sent to ada\n");
    let waited = server.run(&["job", "wait", "1"]).success();
    assert!(
        waited.lines().any(|line| line.starts_with("result") && line.ends_with("sent to ada")),
        "{waited}"
    );
    let response = parsed(&server.run(&["job", "result", "1", "-o", "json"]).success());
    assert_eq!((&response["state"], &response["encoding"]), (&json!("done"), &json!("text")));
    server.stop();
}

#[test]
fn groups_back_off_labels_and_unique_keys_have_flags() {
    let dir = dir();
    let server = server(dir.path());
    let group = server.run(&["group", "new"]).success().trim().to_owned();
    let part = server.run(&["job", "push", "part", "--group", &group, "-q"]).success();
    let merge = ["job", "push", "merge", "--after-group", &group, "--needs", "end", "-q"];
    let merge = server.run(&merge).success().trim().to_owned();
    let sealed = parsed(&server.run(&["group", "seal", &group, "-o", "json"]).success());
    assert_eq!((&sealed["size"], &sealed["sealed"]), (&json!(1), &json!(true)));
    assert_eq!(server.get(&format!("/v1/jobs/{merge}"))["state"], "waiting");
    server.run(&["job", "cancel", part.trim()]).success();
    assert_eq!(server.get(&format!("/v1/jobs/{merge}"))["state"], "ready");
    let shown = server.run(&["group", "get", &group]).success();
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["ran", "1"])), "{shown}");

    let flags = [
        "--backoff",
        "linear",
        "--base",
        "5s",
        "--max-interval",
        "1m",
        "--jitter",
        "0",
        "--label",
        "a=b",
    ];
    let unique = ["--unique", "k", "--unique-hold", "until-success", "--unique-window", "1h", "-q"];
    let id = server.run(&[&["job", "push", "sync"], &flags[..], &unique].concat()).success();
    let job = server.get(&format!("/v1/jobs/{}", id.trim()));
    let retry = &job["retry"];
    assert_eq!(
        (&retry["backoff"], &retry["base"], &retry["jitter"]),
        (&json!("linear"), &json!("5s"), &json!(0))
    );
    assert_eq!(
        (&job["unique"]["hold"], &job["unique"]["window"]),
        (&json!("until-success"), &json!("1h"))
    );
    assert_eq!(job["labels"], json!({ "a": "b" }));
    let settings = r#"{"url": "https://example.com/"}"#;
    server
        .run(&["handler", "set", "call", "http", settings, "--backoff", "constant", "--base", "3s"])
        .success();
    assert_eq!(server.get("/v1/handlers/call")["retry"]["backoff"], "constant");
    server.stop();
}

#[test]
fn every_command_that_reports_something_has_a_json_format() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "store.backups=backups"]);
    server.run(&["job", "push", "mail"]).success();
    let made = parsed(&server.run(&["backup", "--name", "one", "-o", "json"]).success());
    assert_eq!((made["segments"].as_u64(), made["did"].is_string()), (Some(1), true), "{made}");
    server.stop();
    let json = |arguments: &[&str]| -> FinishedCommand {
        let ran = run(dir.path(), &[arguments, &["-o", "json"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    };
    let copied = parsed(&json(&["backup", "crore-data", "copy"]).out);
    assert!(copied["bytes"].as_u64() > Some(0) && copied["to"] == "copy", "{copied}");
    let verified = parsed(&json(&["verify", "copy"]).out);
    assert_eq!((&verified["good"], &verified["jobs"]), (&json!(true), &json!({ "ready": 1 })));
    let repaired = parsed(&json(&["repair", "copy"]).out);
    assert_eq!((&repaired["lossless"], &repaired["steps"]), (&json!(true), &json!([])));
    assert!(parsed(&json(&["config", "check"]).out)["did"].is_string());
    assert!(parsed(&json(&["config", "show"]).out).is_object());
}

#[test]
fn a_schedule_is_previewed_in_its_own_time_zone() {
    let dir = dir();
    let server = server(dir.path());
    let preview = ["schedule", "preview", "cron 0 3 * * * in Europe/Berlin", "-n", "250"];
    let table = server.run(&preview).success();
    let rows: Vec<_> = table.lines().skip(1).collect();
    assert!(rows.iter().all(|row| row.contains(" 03:00:00 ")), "{table}");
    assert!(
        rows.iter().any(|row| row.contains(" CET "))
            && rows.iter().any(|row| row.contains(" CEST "))
    );
    let json = parsed(&server.run(&[&preview[..], &["-o", "json"]].concat()).success());
    assert!(json[0]["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{json}");
    server.stop();
}

#[test]
fn hosts_are_listed_with_names() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--no-runners"]);
    let host = KilledChild::start(&server, &["worker", "--channel", "gpu=1"]);
    let name = eventually(LONG, || {
        let workers = parsed(&server.run(&["worker", "ls", "-o", "json"]).success());
        workers[0]["name"].as_str().map(str::to_owned)
    });
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    assert_eq!(name, format!("{}/gpu", machine.trim()));
    drop(host);
    server.stop();
}
