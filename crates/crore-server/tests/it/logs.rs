//! The log of a server.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::binary::{Server, call, crore, dir, mode, run};
use crate::disk_failure::{IGNORING_LARGE_FILES, break_disk};

#[test]
fn a_json_log_has_one_object_per_line() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--log-format", "json"]);
    server.signal("TERM");
    server.wait();
    let wrote = server.log();
    let lines: Vec<Value> =
        wrote.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let listening = lines.iter().find(|line| line["message"] == "listening").expect("a line");
    assert_eq!(listening["level"], "INFO");
    assert_eq!(listening["address"], server.address.to_string());
    assert!(lines.iter().any(|line| line["message"] == "stopped"), "{wrote}");
}

#[test]
fn a_log_in_files_is_named_after_the_host_and_the_day() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--log-dir", "logs"]);
    server.stop();
    let names: Vec<String> = std::fs::read_dir(dir.path().join("logs"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    let [name] = names.as_slice() else { panic!("{names:?}") };
    let rest = name.strip_prefix("crore.").and_then(|rest| rest.strip_suffix(".log"));
    let (host, day) = rest.and_then(|rest| rest.rsplit_once('.')).expect("host and date");
    assert!(host.parse::<std::net::IpAddr>().is_ok(), "{name}");
    assert_eq!(day.split('-').count(), 3, "{name}");
    let path = dir.path().join("logs").join(name);
    let text = std::fs::read_to_string(&path).expect("a log");
    assert!(text.contains("listening") && text.contains("stopped"), "{text}");
    assert_eq!(mode(&path), 0o640, "only the owner and its group read it");
}

#[test]
fn requests_are_logged_at_debug_without_secrets() {
    let dir = dir();
    let make = ["token", "create", "ops", "--preset", "admin", "--data", "crore-data"];
    let token = run(dir.path(), &make).success();
    let token = token.trim();
    let level = ["--log-format", "json", "--log-level", "warn,crore::requests=debug"];
    let server = Server::start(dir.path(), &level);
    let ask = |method: &str, path: &str, lines: &str, body: &str| {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{lines}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.write_all(head.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
    };
    let mine = format!("authorization: Bearer {token}\r\n");
    ask("POST", "/v1/jobs?secret=sesame", &mine, r#"{"kind": "a", "payload": "open-body"}"#);
    ask("POST", "/v1/jobs", &mine, r#"{"knid": "a", "payload": "open-body"}"#);
    ask("GET", "/v1/jobs", "", "");
    ask("GET", "/nowhere", &mine, "");
    server.wait_for_log("/nowhere");
    let wrote = server.log();
    let lines: Vec<Value> =
        wrote.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let brief = |line: &Value| {
        assert!(line["ms"].as_f64().is_some_and(|ms| (0.0..20_000.0).contains(&ms)), "{line}");
        assert_eq!(line["level"], "DEBUG");
        let who = line["by"].as_str().unwrap_or_default().split('(').next().unwrap_or_default();
        format!("{} {} {} {}", line["method"], line["path"], line["status"], who.trim())
    };
    let mut brief: Vec<String> = lines.iter().map(brief).collect();
    // A line may be written after the caller has read the response.
    brief.sort();
    assert_eq!(
        brief,
        [
            r#""GET" "/nowhere" 404 unknown"#,
            r#""GET" "/v1/jobs" 401 nobody"#,
            r#""POST" "/v1/jobs" 201 token ops"#,
            r#""POST" "/v1/jobs" 400 token ops"#,
        ]
    );
    for secret in ["sesame", "open-body", "Bearer", token] {
        assert!(!wrote.contains(secret), "{secret}: {wrote}");
    }
    server.stop();
}

#[test]
fn only_failed_requests_are_logged_by_default() {
    let dir = dir();
    let mut server = Server::start_through(dir.path(), IGNORING_LARGE_FILES, &[]);
    server.post("/v1/jobs", &json!({ "kind": "a", "payload": "x".repeat(5000) }));
    server.get("/v1/jobs");
    assert!(!server.log().contains("/v1/jobs"), "{}", server.log());
    break_disk(&server);
    let (status, _) = server.call("POST", "/v1/jobs", Some(&json!({ "kind": "a" })));
    assert!(status >= 500);
    server.wait();
    let wrote = server.log();
    let failed = wrote.lines().find(|line| line.contains("/v1/jobs")).expect("a line");
    for said in ["WARN", "POST", &format!("status={status}"), "by=\"loopback\""] {
        assert!(failed.contains(said), "{said}: {wrote}");
    }
}

#[test]
fn a_server_with_a_closed_log_pipe_continues() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let dir = dir();
    let mut child = crore(dir.path(), &["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stderr.take());
    let mut first = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    said.read_line(&mut first).expect("a line");
    drop(said);
    let address = first.trim().rsplit("http://").next().and_then(|text| text.parse().ok());
    let (status, _) = call(address.expect("an address"), "GET", "/livez", None).expect("an answer");
    assert_eq!(status, 200);
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_log_level_filters_lines() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--log-level", "warn"]);
    server.signal("TERM");
    server.wait();
    assert_eq!(server.log(), "");
}

#[test]
fn each_run_is_one_line_if_asked_for() {
    let dir = dir();
    for is_asked in [true, false] {
        let jobs = format!("log.jobs={is_asked}");
        let mut server = Server::start(dir.path(), &["--memory", "--set", &jobs]);
        server.post("/v1/jobs", &json!({ "kind": "mail" }));
        let job = server.post("/v1/fetch", &json!({ "queues": ["mail"] }))["jobs"][0].clone();
        let report = json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "done" });
        server.post("/v1/finish", &json!({ "jobs": [report] }));
        if is_asked {
            server.wait_for_log("run ended");
        }
        server.signal("TERM");
        server.wait();
        let log = server.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("run ended")).collect();
        assert_eq!(lines.len(), usize::from(is_asked), "{log}");
        for text in ["INFO", "crore::jobs", "job=1", "kind=mail", "queue=mail", "done"] {
            assert!(lines.iter().all(|line| line.contains(text)), "{text}: {lines:?}");
        }
    }
}
