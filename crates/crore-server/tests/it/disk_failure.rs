//! Disk failures under a running server.

use std::process::Command;
use std::time::{Duration, Instant};

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{LONG, Server, call, dir};

/// From now on the server cannot write beyond the first bytes of any file.
pub(crate) fn break_disk(server: &Server) {
    let pid = server.pid().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, "--fsize=4096:"]).status();
    assert!(done.expect("prlimit runs").success());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it measures how long the server takes to end")]
fn a_disk_failure_is_logged_once_stops_the_server_and_loses_nothing() {
    let dir = dir();
    let mut server = Server::start_through(dir.path(), IGNORING_LARGE_FILES, &[]);
    let kept = server.post("/v1/jobs", &json!({ "kind": "a", "payload": "x".repeat(5000) }));
    assert!(server.get("/readyz")["ok"] == true);
    break_disk(&server);

    let begun = Instant::now();
    let (status, problem) = server.call("POST", "/v1/jobs", Some(&json!({ "kind": "a" })));
    assert!(status >= 500, "{status} {problem}");
    let (status, ready) = server.call("GET", "/readyz", None);
    assert_eq!((status, &ready["ok"]), (503, &json!(false)), "{ready}");
    assert_eq!(
        ready["faults"],
        json!(["the store is poisoned: a write or a sync failed; restart the server"])
    );
    let (status, problem) = server.call("POST", "/v1/jobs", Some(&json!({ "kind": "a" })));
    assert_eq!((status, &problem["code"]), (500, &json!("poisoned")), "{problem}");
    assert_eq!(server.wait().code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    let wrote = server.log();
    let errors: Vec<&str> = wrote.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{wrote}");
    for text in ["the store has failed", "acknowledged writes are not lost", "restart crore"] {
        assert!(errors[0].contains(text), "{text}: {wrote}");
    }
    assert!(errors[0].contains("File too large"), "the reason: {wrote}");

    let server = Server::start(dir.path(), &[]);
    let id = kept["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["state"], "ready");
    server.post("/v1/jobs", &json!({ "kind": "a" }));
    server.stop();
}

#[test]
fn a_disk_failure_while_draining_is_logged() {
    let dir = dir();
    let mut server =
        Server::start_through(dir.path(), IGNORING_LARGE_FILES, &["--drain-for", "1h"]);
    server.post("/v1/jobs", &json!({ "kind": "a", "payload": "x".repeat(5000) }));
    let fetched = server.post("/v1/fetch", &json!({ "queues": ["a"] }));
    server.signal("TERM");
    server.wait_for_log("shutting down");
    break_disk(&server);
    let job = &fetched["jobs"][0];
    let report = json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "done" });
    let report: Value = json!({ "jobs": [report] });
    let address = server.address;
    let (status, _) = call(address, "POST", "/v1/finish", Some(&report)).expect("an answer");
    assert!(status >= 500, "{status}");
    assert_eq!(server.wait().code(), Some(1));
    eventually(LONG, || server.log().contains("the store has failed"));
}

/// Writes beyond the file size limit return an error instead of ending the process with a signal.
pub(crate) const IGNORING_LARGE_FILES: &[&str] = &["sh", "-c", r#"trap "" XFSZ; exec "$@""#, "sh"];
