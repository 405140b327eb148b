//! `/metrics`, read by Prometheus itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crore_api::metrics::METRICS;
use crore_testkit::{DebianPackage, eventually, or_skip};
use serde_json::{Value, json};

use crate::binary::{LONG, Server, call, dir};

/// The metrics page, and its content type.
fn page(address: SocketAddr, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\naccept: {accept}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    (body.to_owned(), kind.expect("a content type").to_owned())
}

/// A server with jobs in every state and outcome.
fn server_with_history(dir: &Path) -> Server {
    let server = Server::start(dir, &[]);
    for n in 0..5 {
        server.post(
            "/v1/jobs",
            &json!({ "kind": "mail", "payload": n, "retry": { "max_attempts": 2 } }),
        );
    }
    server.post("/v1/jobs", &json!({ "kind": "quote \" and \\ slash", "delay": "1h" }));
    let fetched = server.post("/v1/fetch", &json!({ "queues": ["mail"], "n": 3 }));
    let outcomes = [json!({ "outcome": "done" }), json!({ "outcome": "failed", "error": "busy" })];
    for (job, outcome) in fetched["jobs"].as_array().expect("jobs").iter().zip(outcomes) {
        let mut report = outcome.as_object().expect("an object").clone();
        report.insert("id".to_owned(), job["id"].clone());
        report.insert("delivery".to_owned(), job["delivery"].clone());
        server.post("/v1/finish", &json!({ "jobs": [report] }));
    }
    assert_eq!(server.call("POST", "/v1/jobs", Some(&json!({ "kind": "" }))).0, 400);
    assert_eq!(server.call("GET", "/nowhere", None).0, 404);
    ask_for_info(server.address);
    server
}

/// A gRPC-Web call with an empty message.
fn ask_for_info(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "POST /crore.v1.Admin/Info HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0"
    );
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(String::from_utf8_lossy(&answer).contains("grpc-status:0"), "{answer:?}");
}

/// All samples: name with labels, and value.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            (name, value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn the_metrics_page_counts_calls_and_jobs() {
    let dir = dir();
    let server = server_with_history(dir.path());
    let (text, kind) = page(server.address, "text/plain");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let samples = samples(&text);
    let is = |name: &str, value: f64| assert_eq!(samples.get(name), Some(&value), "{name}\n{text}");
    is(r#"crore_jobs{queue="mail",state="ready"}"#, 2.0);
    is(r#"crore_jobs{queue="mail",state="running"}"#, 1.0);
    is(r#"crore_jobs{queue="quote \" and \\ slash",state="scheduled"}"#, 1.0);
    is(r#"crore_jobs_pushed_total{queue="mail"}"#, 5.0);
    is(r#"crore_job_wait_seconds_count{queue="mail"}"#, 3.0);
    is(r#"crore_job_run_seconds_count{queue="mail"}"#, 2.0);
    is(r#"crore_job_outcomes_total{queue="mail",outcome="done"}"#, 1.0);
    is(r#"crore_job_outcomes_total{queue="mail",outcome="failed"}"#, 1.0);
    is("crore_leases", 1.0);
    is(r#"crore_store_faults{fault="poisoned"}"#, 0.0);
    is(r#"crore_rejected_total{door="http",reason="name-empty"}"#, 1.0);
    is(r#"crore_rejected_total{door="none",reason="not-found"}"#, 1.0);
    is(r#"crore_grpc_calls_total{call="/crore.v1.Admin/Info",status="OK"}"#, 1.0);
    let pushes = r#"{door="http",method="POST",route="/v1/jobs",status="201"}"#;
    is(&format!("crore_http_requests_total{pushes}"), 6.0);
    let least = |name: &str| samples.get(name).copied().unwrap_or_default();
    assert!(least("crore_store_commit_seconds_count") >= 1.0, "{text}");
    assert!(least("process_cpu_seconds_total") > 0.0, "{text}");
    assert!(least("process_resident_memory_bytes") > 1e6, "{text}");
    assert!(least("crore_store_disk_bytes") > 0.0 && least("crore_connections") >= 1.0, "{text}");
    server.stop_soon();
}

#[test]
fn the_metrics_page_and_the_guide_have_every_metric_of_the_table() {
    let dir = dir();
    let server = server_with_history(dir.path());
    let (text, _) = page(server.address, "*/*");
    let families: BTreeSet<(&str, &str)> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let table: BTreeSet<(&str, &str)> = METRICS.iter().map(|row| (row.name, row.kind)).collect();
    assert_eq!(families, table);
    let guide = include_str!("../../../../docs/guide/observability.md");
    for row in METRICS {
        let labels: Vec<String> = row.labels.iter().map(|label| format!("`{label}`")).collect();
        let line =
            format!("| `{}` | {} | {} | {} |", row.name, row.kind, labels.join(", "), row.help);
        assert!(guide.contains(&line), "the guide has no line\n{line}");
    }
    server.stop_soon();
}

#[test]
fn promtool_finds_no_fault() {
    let Some(promtool) = or_skip(DebianPackage::Prometheus.require_program("promtool")) else {
        return;
    };
    let dir = dir();
    let server = server_with_history(dir.path());
    let (text, _) = page(server.address, "text/plain");
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    check.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let output = check.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}{text}");
    server.stop_soon();
}

/// A Prometheus process that ends with its test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let Some(program) = or_skip(DebianPackage::Prometheus.require_program("prometheus")) else {
        return;
    };
    let dir = dir();
    let server = server_with_history(dir.path());
    let config = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: crore\n    \
         static_configs: [ {{ targets: [ '{}' ] }} ]\n",
        server.address
    );
    let path = dir.path().join("prometheus.yml");
    fs::write(&path, config).expect("written");
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let child = Command::new(program)
        .arg(format!("--config.file={}", path.display()))
        .arg(format!("--storage.tsdb.path={}", dir.path().join("tsdb").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _prometheus = Prometheus(child.expect("prometheus runs"));
    let ask = |query: &str| {
        let answer = call(address, "GET", &format!("/api/v1/query?query={query}"), None);
        answer.map_or(Value::Null, |(_, answer)| answer["data"]["result"].clone())
    };
    eventually(LONG, || {
        let up = ask("up");
        if up[0]["value"][1] == "1" { Ok(()) } else { Err(up) }
    });
    let pushed = ask("crore_jobs_pushed_total");
    let mail = |one: &&Value| one["metric"]["queue"] == "mail" && one["value"][1] == "5";
    assert_eq!(pushed.as_array().expect("a list").iter().filter(mail).count(), 1, "{pushed}");
    let buckets = ask("count(crore_store_commit_seconds_bucket)");
    assert_eq!(buckets[0]["value"][1], "15", "{buckets}");
    server.stop_soon();
}

#[test]
fn openmetrics_is_served_if_accepted() {
    let dir = dir();
    let server = server_with_history(dir.path());
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let (text, kind) = page(server.address, accept);
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(text.contains("# TYPE crore_jobs_pushed counter\n") && text.ends_with("# EOF\n"));
    server.stop_soon();
}
