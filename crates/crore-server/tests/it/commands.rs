//! Commands over the API.

use serde_json::{Value, json};

use crate::binary::{Server, dir, run};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A server with a memory store.
fn server(dir: &std::path::Path) -> Server {
    Server::start(dir, &["--memory"])
}

/// Fetches the next job of a queue and reports it.
fn work(server: &Server, queue: &str, report: Value) {
    let ask = json!({ "queues": [queue], "worker": "w1" });
    let job = server.post("/v1/fetch", &ask)["jobs"][0].clone();
    let Value::Object(mut fields) = report else { panic!("a report") };
    fields.insert("id".to_owned(), job["id"].clone());
    fields.insert("delivery".to_owned(), job["delivery"].clone());
    server.post("/v1/finish", &json!({ "jobs": [fields] }));
}

#[test]
fn a_job_is_pushed_shown_waited_for_and_deleted() {
    let dir = dir();
    let server = server(dir.path());
    let push =
        ["job", "push", "mail", r#"{"to": "ada"}"#, "--keep-result", "1h", "--label", "a=b", "-q"];
    let id = server.run(&push).success().trim().to_owned();

    let job = parsed(&server.run(&["job", "get", &id, "--why", "-o", "json"]).success());
    let shown = server.run(&["job", "get", &id, "--why"]).success();
    let why = shown.lines().find_map(|line| line.strip_prefix("why ")).expect("a reason");
    assert!(!why.contains('{'), "the message is readable: {why}");
    assert_eq!((&job["state"], &job["payload"]), (&json!("ready"), &json!({ "to": "ada" })));
    assert_eq!(job["labels"], json!({ "a": "b" }));
    assert!(job["reasons"].is_array(), "{job}");
    let table = server.run(&["job", "ls"]).success();
    assert!(table.starts_with("ID") && table.contains("mail"), "{table}");

    work(&server, "mail", json!({ "outcome": "done", "result": 42 }));
    let ended = parsed(&server.run(&["job", "wait", &id, "-o", "json"]).success());
    assert_eq!((&ended["state"], &ended["result"]), (&json!("done"), &json!(42)));
    assert!(server.run(&["job", "rm", &id]).success().contains("gone"));
    let gone = server.run(&["job", "get", &id]);
    assert_eq!(gone.code, Some(3), "{gone:?}");
    assert!(gone.err.contains("not-found"), "{}", gone.err);
    server.stop();
}

/// A job that was pushed through Jobber is found by its UUID, also after a restart, and not on another server.
#[test]
fn a_uuid_of_jobber_names_the_job_on_its_server() {
    let (home, other_home) = (dir(), dir());
    let server = Server::start(home.path(), &[]);
    let other = Server::start(other_home.path(), &[]);
    let push = |server: &Server| {
        let pushed = server.post("/jobs", &json!({ "jobType": "mail", "payload": 1 }));
        pushed["jobId"].as_str().expect("a UUID").to_owned()
    };
    let (uuid, other_uuid) = (push(&server), push(&other));
    assert_ne!(uuid, other_uuid);
    server.stop();
    let server = Server::start(home.path(), &[]);
    let job = parsed(&server.run(&["job", "get", &uuid, "-o", "json"]).success());
    assert_eq!((&job["id"], &job["kind"]), (&json!("1"), &json!("mail")));
    assert_eq!(server.get(&format!("/v1/jobs/{uuid}"))["id"], "1");
    assert_eq!(server.run(&["job", "get", &other_uuid]).code, Some(3));
    assert!(server.run(&["job", "cancel", &uuid]).success().contains("cancelled"));
    other.stop();
    server.stop();
}

#[test]
fn lines_of_the_standard_input_are_jobs_or_payloads() {
    let dir = dir();
    let server = server(dir.path());
    let jobs: String = (0..1200).map(|n| format!("{{\"kind\":\"a\",\"payload\":{n}}}\n")).collect();
    assert_eq!(server.run_on(&["job", "push", "-"], &jobs).success(), "pushed 1200 jobs\n");
    let payloads = "1\n\n{\"two\": 2}\n";
    assert_eq!(server.run_on(&["job", "push", "b", "-"], payloads).success(), "pushed 2 jobs\n");
    let listed = server.run(&["job", "ls", "--queue", "a", "-n", "2000", "-o", "jsonl"]).success();
    assert_eq!(listed.lines().count(), 1200);

    let bad = "{\"kind\":\"a\"}\n{\"kind\":\"\"}\n{\"kind\":\"a\",\"priority\":-1}\n";
    let ran = server.run_on(&["job", "push", "-"], bad);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "pushed 2 jobs, 1 refused\n"));
    assert!(ran.err.starts_with("line 2: kind: "), "{}", ran.err);
    let ran =
        server.run_on(&["job", "push", "-"], "{\"kind\":\"a\"}\nnonsense\n{\"kind\":\"b\"}\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "pushed 2 jobs, 1 refused\n"));
    assert!(ran.err.starts_with("line 2: not JSON: "), "{}", ran.err);
    server.stop();
}

#[test]
fn a_payload_may_come_from_a_file_and_must_be_json() {
    let dir = dir();
    let server = server(dir.path());
    let file = dir.path().join("letter.json");
    std::fs::write(&file, "{\"big\": true}").expect("written");
    let at = format!("@{}", file.display());
    let id = server.run(&["job", "push", "mail", &at, "-q"]).success();
    let job = parsed(&server.run(&["job", "get", id.trim(), "-o", "json"]).success());
    assert_eq!(job["payload"], json!({ "big": true }));
    let bad = server.run(&["job", "push", "mail", "hello"]);
    assert_eq!(bad.code, Some(2));
    assert!(bad.err.contains("`hello` is not JSON"), "{}", bad.err);
    server.stop();
}

#[test]
fn a_payload_arrives_as_it_was_written() {
    let dir = dir();
    let server = server(dir.path());
    let payload = r#"{"z": 1.0,  "a": 123456789012345678901234567890, "m": [0.10]}"#;
    let id = server.run(&["job", "push", "a", payload, "-q"]).success();
    let lines = format!("{payload}\n");
    server.run_on(&["job", "push", "a", "-"], &lines).success();
    server
        .run_on(&["job", "push", "-"], &format!("{{\"kind\":\"a\",\"payload\":{payload}}}\n"))
        .success();
    for n in 0..3 {
        let id = (id.trim().parse::<u64>().expect("a number") + n).to_string();
        let job = server.run(&["job", "get", &id, "-o", "json"]).success();
        assert!(job.contains(payload), "{job}");
    }
    server.stop();
}

#[test]
fn dead_jobs_are_listed_and_retried_together() {
    let dir = dir();
    let server = server(dir.path());
    for _ in 0..3 {
        server.run(&["job", "push", "mail", "--attempts", "1"]).success();
        work(&server, "mail", json!({ "outcome": "failed", "error": "asleep" }));
    }
    let dead = server.run(&["job", "ls", "--state", "dead"]).success();
    assert_eq!(dead.matches("asleep").count(), 3, "{dead}");
    let all = ["job", "retry", "--state", "dead", "--queue", "mail", "-o", "json"];
    let would = parsed(&server.run(&[&all[..], &["--dry-run"]].concat()).success());
    assert_eq!((&would["done"], &would["dry_run"]), (&json!(3), &json!(true)));
    let would = server.run(&["job", "retry", "--state", "dead", "--dry-run"]).success();
    assert_eq!(would, "would retry 3 jobs\n");
    assert_eq!(server.get("/v1/jobs?state=dead")["jobs"].as_array().map(Vec::len), Some(3));
    assert_eq!(parsed(&server.run(&[&all[..], &["--yes"]].concat()).success())["done"], 3);
    assert_eq!(server.get("/v1/jobs?state=ready")["jobs"].as_array().map(Vec::len), Some(3));

    let none = server.run(&["job", "cancel"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    server.stop();
}

#[test]
fn jobs_are_cancelled_retried_and_moved_by_their_ids() {
    let dir = dir();
    let server = server(dir.path());
    let id = server.run(&["job", "push", "mail", "-q"]).success().trim().to_owned();
    let edited =
        server.run(&["job", "edit", &id, "--queue", "other", "--priority", "-3"]).success();
    assert!(edited.contains("ready"), "{edited}");
    let job = server.get(&format!("/v1/jobs/{id}"));
    assert_eq!((&job["queue"], &job["priority"]), (&json!("other"), &json!(-3)));
    assert!(server.run(&["job", "cancel", &id]).success().contains("cancelled"));
    assert!(server.run(&["job", "retry", &id]).success().contains("ready"));
    assert_eq!(server.run(&["job", "edit", &id]).code, Some(2));
    server.stop();
}

#[test]
fn a_queue_is_paused_resumed_drained_and_configured() {
    let dir = dir();
    let server = server(dir.path());
    server.run(&["job", "push", "mail"]).success();
    server.run(&["queue", "pause", "mail"]).success();
    let queues = parsed(&server.run(&["queue", "ls", "-o", "json"]).success());
    assert_eq!((&queues[0]["paused"], &queues[0]["counts"]["ready"]), (&json!(true), &json!(1)));
    server.run(&["queue", "resume", "mail"]).success();
    assert!(
        server
            .run(&["queue", "drain", "mail", "--for", "1s"])
            .success()
            .contains("none of its jobs is running")
    );
    let set = ["queue", "set", "mail", "--keep-done", "1h", "--max-dead", "5", "-o", "json"];
    let set = parsed(&server.run(&set).success());
    assert_eq!((&set["keep_done"], &set["max_dead"]), (&json!("1h"), &json!(5)));
    server.stop();
}

#[test]
fn a_queue_whose_jobs_still_run_is_not_drained() {
    let dir = dir();
    let server = server(dir.path());
    server.run(&["job", "push", "mail"]).success();
    server.post("/v1/fetch", &json!({ "queues": ["mail"], "worker": "w" }));
    let drained = server.run(&["queue", "drain", "mail", "--for", "50ms"]);
    assert_eq!(drained.code, Some(1), "{drained:?}");
    assert!(drained.out.contains("still running"), "{}", drained.out);
    assert_eq!(server.run(&["queue", "drain", "mail", "--for", "soon"]).code, Some(2));
    server.stop_soon();
}

#[test]
fn schedules_and_limits_are_set_listed_and_removed() {
    let dir = dir();
    let server = server(dir.path());
    let set = ["schedule", "set", "nightly", "cron 0 3 * * * in Europe/Berlin", "report", "{}"];
    server.run(&set).success();
    let listed = server.run(&["schedule", "ls"]).success();
    assert!(listed.contains("nightly") && listed.contains("Europe/Berlin"), "{listed}");
    server.run(&["schedule", "pause", "nightly"]).success();
    assert_eq!(parsed(&server.run(&["schedule", "ls", "-o", "json"]).success())[0]["paused"], true);
    server.run(&["schedule", "resume", "nightly"]).success();
    let ticks = server.run(&["schedule", "preview", "every 15m", "-n", "3"]).success();
    assert_eq!(ticks.lines().count(), 4, "{ticks}");
    server.run(&["schedule", "rm", "nightly"]).success();
    assert_eq!(server.run(&["schedule", "ls", "-o", "jsonl"]).success(), "");
    let bad = server.run(&["schedule", "set", "x", "sometimes", "report"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");

    server.run(&["limit", "set", "a/b c", r#"where kind = "mail" rate 100/1m"#]).success();
    assert_eq!(parsed(&server.run(&["limit", "ls", "-o", "json"]).success())[0]["name"], "a/b c");
    server.run(&["limit", "rm", "a/b c"]).success();
    assert_eq!(server.run(&["limit", "ls", "-o", "jsonl"]).success(), "");
    server.stop();
}

#[test]
fn workers_statistics_and_the_server_are_shown() {
    let dir = dir();
    let server = server(dir.path());
    server.run(&["job", "push", "mail"]).success();
    let (status, _) =
        server.call("PUT", "/v1/workers/w1", Some(&json!({ "about": { "host": "h" } })));
    assert_eq!(status / 100, 2);
    assert!(server.run(&["worker", "ls"]).success().contains("w1"));
    let stats = server.run(&["stats", "--minutes"]).success();
    assert!(stats.starts_with("FROM"), "{stats}");
    let info = parsed(&server.run(&["info", "-o", "json"]).success());
    assert_eq!((&info["name"], &info["durability"]), (&json!("crore"), &json!("D0")));
    server.stop();
}

#[test]
fn an_unreachable_server_is_named() {
    let dir = dir();
    let ran = run(dir.path(), &["info", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(5));
    assert!(ran.err.contains("http://127.0.0.1:1 cannot be reached"), "{}", ran.err);
    assert_eq!(run(dir.path(), &["info", "--server", "gopher://x"]).code, Some(2));
}

#[test]
fn a_job_without_an_error_is_printed_without_one() {
    let dir = dir();
    let server = server(dir.path());
    server.run(&["job", "push", "mail"]).success();
    let ready = server.run(&["job", "result", "1", "--for", "0s"]);
    assert_eq!((ready.code, ready.err.as_str()), (Some(1), "error: job 1 is ready\n"));
    server.run(&["job", "cancel", "1"]).success();
    let cancelled = server.run(&["job", "result", "1"]);
    assert_eq!((cancelled.code, cancelled.err.as_str()), (Some(1), "error: job 1 is cancelled\n"));
    server.stop();
}

#[test]
fn removing_an_unknown_handler_and_an_empty_kind_are_errors() {
    let dir = dir();
    let server = server(dir.path());
    let gone = server.run(&["handler", "rm", "nosuch"]);
    assert_eq!(gone.code, Some(3), "{gone:?}");
    assert!(gone.err.contains("`nosuch` has no handler"), "{}", gone.err);
    for arguments in [&["set", "", "http", "{}"] as &[_], &["get", ""], &["rm", ""]] {
        let ran = server.run(&[&["handler"], arguments].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(2), "error: a kind cannot be empty\n"));
    }
    server.stop();
}

#[test]
fn setting_a_handler_warns_about_likely_mistakes() {
    let dir = dir();
    let server = server(dir.path());
    let settings = r#"{"url": "https://example.com/", "method": "GET"}"#;
    for _ in 0..3 {
        server.run(&["job", "push", "fetch", "--queue", "early"]).success();
    }
    let set = |more: &[&str]| {
        let ran = server.run(&[&["handler", "set", "fetch", "http", settings], more].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.err
    };
    let told = set(&["--next", "fetch", "--next", "typo", "--on-failure", "typo"]);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].contains("kind `typo` has no handler yet"), "{told}");
    assert!(lines[1].contains("3 jobs of this kind wait in the queue `early`"), "{told}");
    assert!(lines[1].contains("crore job edit ID --queue default"), "{told}");
    assert_eq!(set(&["--queue", "early"]), "");
    server.stop();
}

#[test]
fn queues_of_all_pages_are_listed() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "caps.page=2"]);
    for n in 0..5 {
        server.post("/v1/jobs", &json!({ "kind": "k", "queue": format!("q{n}") }));
    }
    let listed = server.run(&["queue", "ls", "-o", "jsonl"]).success();
    let names = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let names: Vec<_> = names.map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, ["q0", "q1", "q2", "q3", "q4"]);
}
