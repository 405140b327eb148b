//! Jobs that the tests of the Web UI look at.

use std::time::Duration;

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{LONG, Server};

/// Dead jobs that one action retries.
const DEAD: usize = 5000;
const BATCH: usize = 1000;
/// Mail that waits for a limit.
const LATE: usize = 450;
/// Longer than the charts of a new server need for some points.
const CHARTS: Duration = Duration::from_secs(600);
/// Minutes with jobs.
const POINTS: usize = 5;

/// A name, payload or error that tries to become markup.
const NASTY: &str = "<script>document.title='owned'</script>\u{202e}<img src=x onerror=alert(1)>";

/// Fetches the next job of a queue; its id and delivery.
fn fetch(server: &Server, queue: &str, worker: &str) -> Value {
    let fetched = server.post("/v1/fetch", &json!({ "queues": [queue], "worker": worker }));
    json!({ "id": fetched["jobs"][0]["id"], "delivery": fetched["jobs"][0]["delivery"] })
}

/// Fails the next job of a queue.
fn fail(server: &Server, queue: &str, worker: &str, error: &str) {
    let mut report = fetch(server, queue, worker);
    report["outcome"] = json!("failed");
    report["error"] = json!(error);
    server.post("/v1/finish", &json!({ "jobs": [report] }));
}

/// A failed mail, mail that waits, and a job whose every text is hostile.
pub(super) fn push_for_walks(server: &Server) {
    let retry = json!({ "max_attempts": 1 });
    server.post("/v1/jobs", &json!({ "kind": "mail", "queue": "mail", "payload": { "to": "ada", "customer": 42 }, "retry": retry }));
    fail(server, "mail", "postman", "mailbox `ada` is full");
    for n in 0..20 {
        server
            .post("/v1/jobs", &json!({ "kind": "mail", "queue": "mail", "payload": { "to": n } }));
    }
    // Nearly the maximum size of a payload.
    let text = format!("{NASTY}\u{0}{}", "x".repeat((1 << 20) - 1000));
    server.post("/v1/jobs", &json!({ "kind": NASTY, "queue": NASTY, "payload": { NASTY: text }, "labels": { "nasty": NASTY }, "retry": retry }));
    fail(server, NASTY, NASTY, &text);
}

/// Jobs whose only attempt failed.
pub(super) fn push_dead(server: &Server) {
    let job = json!({ "kind": "import", "queue": "imports", "payload": { "rows": 3 }, "retry": { "max_attempts": 1 } });
    for _ in 0..DEAD / BATCH {
        server.post("/v1/jobs", &json!({ "jobs": vec![&job; BATCH] }));
        let fetched = server
            .post("/v1/fetch", &json!({ "queues": ["imports"], "n": BATCH, "worker": "importer" }));
        let jobs = fetched["jobs"].as_array().expect("a list").iter();
        let failed = |job: &Value| json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "failed", "error": "disk quota exceeded" });
        server.post("/v1/finish", &json!({ "jobs": jobs.map(failed).collect::<Vec<_>>() }));
    }
}

/// Exports of two customers; that of customer 42 runs, and has a log.
pub(super) fn push_export(server: &Server) {
    for customer in [42, 7] {
        let payload = json!({ "customer": customer, "format": "csv" });
        server
            .post("/v1/jobs", &json!({ "kind": "export", "queue": "exports", "payload": payload }));
    }
    let delivery = fetch(server, "exports", "exporter");
    let note = |percent: Option<u8>, text: &str| {
        let mut note = delivery.clone();
        note["text"] = json!(text);
        if let Some(percent) = percent {
            note["percent"] = json!(percent);
        }
        note
    };
    let lines = (1..=3).map(|page| note(None, &format!("page {page} of 9 written")));
    let notes: Vec<Value> = lines.chain([note(Some(33), "writing")]).collect();
    server.post("/v1/notes", &json!({ "notes": notes }));
}

/// A queue whose limit makes its jobs wait, and one whose jobs start at once. The server runs both.
pub(super) fn push_late_mail(server: &Server) {
    let limit = json!({ "limit": "where kind = \"mail\" rate 5/1s" });
    assert_eq!(server.call("PUT", "/v1/limits/smtp", Some(&limit)).0, 200);
    let handler = json!({ "runner": "command", "settings": { "program": "true" } });
    for (kind, n) in [("mail", LATE), ("sms", 3)] {
        let (status, answer) = server.call("PUT", &format!("/v1/handlers/{kind}"), Some(&handler));
        assert_eq!(status, 200, "{answer}");
        let job = json!({ "kind": kind, "queue": kind, "payload": { "to": "ada" } });
        server.post("/v1/jobs", &json!({ "jobs": vec![&job; n] }));
    }
    // Mail that started later has waited for seconds.
    eventually(LONG, || {
        let stats = server.get("/v1/stats?by=queue");
        let started = |queue: &str| {
            let rows = stats["rows"].as_array().expect("a list").iter();
            let mut of_queue = rows.filter(|row| row["queue"] == queue);
            of_queue.next().and_then(|row| row["started"].as_u64()).unwrap_or_default()
        };
        (started("sms") >= 3 && started("mail") >= 15).then_some(()).ok_or(stats)
    });
}

/// Adds a handler with a job, and an operation, to the samples of `crore dev`. Waits for an error and a dead job.
pub(super) fn add_to_dev(server: &Server) {
    let handler =
        json!({ "runner": "command", "settings": { "program": "echo", "args": ["hello"] } });
    let (status, answer) = server.call("PUT", "/v1/handlers/greet", Some(&handler));
    assert_eq!(status, 200, "{answer}");
    server.post(
        "/v1/jobs",
        &json!({ "kind": "greet", "queue": "default", "payload": { "name": "Ada" } }),
    );
    eventually(LONG, || {
        let errors = server.get("/v1/errors");
        let dead = server.get("/v1/jobs?state=dead");
        let is_shown = errors["groups"][0].is_object() && dead["jobs"][0].is_object();
        is_shown.then_some(()).ok_or(errors)
    });
    // It changes nothing: the dead job stays for the pages.
    let none = json!({ "act": "retry", "filter": { "q": "kind:nosuch state:dead" } });
    server.post("/v1/operations", &none);
}

/// More mail than the limit of `crore dev` lets through at once.
pub(super) fn push_much_mail(server: &Server) {
    let job = json!({ "kind": "mail", "queue": "mail", "payload": { "to": "ada@example.com" } });
    server.post("/v1/jobs", &json!({ "jobs": vec![job; LATE] }));
}

/// Waits until the charts have some points.
pub(super) fn wait_for_charts(server: &Server) {
    eventually(CHARTS, || {
        let rows = server.get("/v1/stats?step=minute")["rows"].as_array().map_or(0, Vec::len);
        (rows >= POINTS).then_some(()).ok_or(rows)
    });
}
