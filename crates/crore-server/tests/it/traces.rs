//! Traces, as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crore_testkit::{Pypi, eventually, or_skip};
use serde_json::{Value, json};

use crate::binary::{LONG, Server, dir};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector in Python that ends with its test.
struct Collector {
    child: Child,
    port: u16,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start(python: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/traces/collector.py");
        let mut child =
            Command::new(python).arg(script).stdout(Stdio::piped()).spawn().expect("python runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines.next().expect("a line").expect("a port").parse().expect("a port");
        let spans = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&spans);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let span = serde_json::from_str(&line).expect("JSON");
                copy.lock().expect("no panic").push(span);
            }
        });
        Self { child, port, spans }
    }

    /// Received spans with this name.
    fn named(&self, name: &str) -> Vec<Value> {
        let spans = self.spans.lock().expect("no panic");
        spans.iter().filter(|span| span["name"] == name).cloned().collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pushes with headers, as a raw request.
fn push(address: SocketAddr, headers: &str) -> Value {
    let body = r#"{"kind":"mail","retry":{"max_attempts":1}}"#;
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    serde_json::from_str(answer.rsplit("\r\n\r\n").next().expect("a body")).expect("JSON")
}

fn fetch(server: &Server) -> Value {
    server.post("/v1/fetch", &json!({ "queues": ["mail"], "worker": "w1" }))["jobs"][0].clone()
}

fn finish(server: &Server, job: &Value, report: &Value) {
    let mut report = report.clone();
    report["id"] = job["id"].clone();
    report["delivery"] = job["delivery"].clone();
    server.post("/v1/finish", &json!({ "jobs": [report] }));
}

/// Trace and span ids that a worker receives.
fn trace_and_span(job: &Value) -> (String, String) {
    let trace = job["trace"].as_str().expect("a context");
    let parts: Vec<&str> = trace.split([' ', '-']).collect();
    (parts[1].to_owned(), parts[2].to_owned())
}

fn serve(dir: &Path, port: u16, protocol: &str) -> Server {
    let config = format!(
        "[telemetry]\nendpoint = \"http://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\n\
         sample = 1.0\nservice = \"mails\"\n"
    );
    std::fs::write(dir.join("crore.toml"), config).expect("written");
    Server::start(dir, &[])
}

#[test]
fn a_push_with_a_trace_context_exports_four_spans_by_otlp() {
    let Some(programs) = or_skip(Pypi::OpenTelemetry.programs()) else { return };
    let (dir, collector) = (dir(), Collector::start(&programs.join("python")));
    let server = serve(dir.path(), collector.port, "otlp");
    let headers = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n");
    let id = push(server.address, &headers)["id"].clone();
    let job = fetch(&server);
    let (trace, run) = trace_and_span(&job);
    assert_eq!(
        (trace.as_str(), job["trace"].as_str().map(|text| text.ends_with("-01 a=1"))),
        (TRACE, Some(true))
    );
    finish(&server, &job, &json!({ "outcome": "failed", "error": "no such address" }));
    // The remaining spans are sent when the server stops.
    server.stop();
    let one = |name: &str| {
        let spans = collector.named(name);
        assert_eq!(spans.len(), 1, "{name}: {spans:?}");
        let span = spans[0].clone();
        assert_eq!(
            (span["trace"].as_str(), span["service"].as_str()),
            (Some(TRACE), Some("mails"))
        );
        assert_eq!((&span["tags"]["messaging.message.id"], &span["state"]), (&id, &json!("a=1")));
        span
    };
    let (push, wait, ran, finish) = (one("push"), one("wait"), one("run"), one("finish"));
    assert_eq!((&push["parent"], &push["kind"]), (&json!(PARENT), &json!("PRODUCER")));
    assert_eq!((&wait["parent"], &wait["links"]), (&push["id"], &json!([push["id"]])));
    assert_eq!((&ran["parent"], &ran["kind"]), (&push["id"], &json!("CONSUMER")));
    assert_eq!((&ran["id"], &ran["error"]), (&json!(run), &json!("no such address")));
    assert_eq!((&finish["parent"], &finish["tags"]["crore.state"]), (&ran["id"], &json!("dead")));
}

#[test]
fn zipkin_receives_traces_from_b3_headers_and_new_ones() {
    let (dir, collector) = (dir(), Collector::start(Path::new("python3")));
    let server = serve(dir.path(), collector.port, "zipkin");
    push(server.address, &format!("b3: {TRACE}-{PARENT}-1\r\n"));
    let job = fetch(&server);
    assert_eq!(trace_and_span(&job).0, TRACE);
    finish(&server, &job, &json!({ "outcome": "done" }));
    push(
        server.address,
        &format!("x-b3-traceid: {TRACE}\r\nx-b3-spanid: {PARENT}\r\nx-b3-sampled: 0\r\n"),
    );
    let job = fetch(&server);
    assert_eq!(job["trace"], json!(format!("00-{TRACE}-{PARENT}-00")), "not recorded: as it came");
    finish(&server, &job, &json!({ "outcome": "done" }));
    push(server.address, "traceparent: nonsense\r\n");
    let job = fetch(&server);
    let (own, _) = trace_and_span(&job);
    finish(&server, &job, &json!({ "outcome": "done" }));
    server.stop();
    let (pushes, runs) = (collector.named("push"), collector.named("run"));
    let traces: Vec<&Value> = pushes.iter().map(|span| &span["trace"]).collect();
    assert_eq!(traces, [&json!(TRACE), &json!(own)]);
    assert_eq!((&pushes[0]["parent"], &pushes[1]["parent"]), (&json!(PARENT), &Value::Null));
    assert_eq!((&runs[0]["parent"], &runs[1]["parent"]), (&pushes[0]["id"], &pushes[1]["id"]));
    assert_eq!(
        (&runs[0]["tags"]["crore.ended"], &runs[0]["error"]),
        (&json!("done"), &Value::Null)
    );
}

#[test]
fn without_telemetry_the_trace_context_is_passed_to_the_worker_unchanged() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    for (headers, trace) in [
        (
            format!("traceparent: {parent}\r\ntracestate: a=1,b=2\r\n"),
            json!(format!("{parent} a=1,b=2")),
        ),
        (format!("b3: {TRACE}-{PARENT}-1\r\n"), json!(parent)),
        ("traceparent: 00-nothing\r\n".to_owned(), Value::Null),
        (String::new(), Value::Null),
    ] {
        push(server.address, &headers);
        let job = fetch(&server);
        assert_eq!(job["trace"], trace, "{headers}");
        finish(&server, &job, &json!({ "outcome": "done" }));
    }
    server.stop();
}

#[test]
fn follow_ups_inherit_the_trace_of_their_parent_unless_they_have_one() {
    let own = format!("00-{}-{PARENT}-01", "a".repeat(32));
    let follow = json!([{ "kind": "mail" }, { "kind": "mail", "trace": own }]);
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    push(server.address, &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n"));
    finish(&server, &fetch(&server), &json!({ "outcome": "done", "on_done": follow }));
    assert_eq!(fetch(&server)["trace"], json!(format!("00-{TRACE}-{PARENT}-01")));
    assert_eq!(fetch(&server)["trace"], json!(own));
    push(server.address, "");
    finish(
        &server,
        &fetch(&server),
        &json!({ "outcome": "done", "on_done": [{ "kind": "mail" }] }),
    );
    assert_eq!(fetch(&server)["trace"], Value::Null);
    server.stop_soon();

    // With spans, the parent of a follow-up's push is the run that it follows.
    let (dir, collector) = (self::dir(), Collector::start(Path::new("python3")));
    let server = serve(dir.path(), collector.port, "zipkin");
    push(server.address, "");
    let first = fetch(&server);
    let (trace, run) = trace_and_span(&first);
    finish(&server, &first, &json!({ "outcome": "done", "on_done": follow }));
    let (next, other) = (fetch(&server), fetch(&server));
    assert_eq!(
        (trace_and_span(&next).0, trace_and_span(&other).0),
        (trace.clone(), "a".repeat(32))
    );
    for job in [&next, &other] {
        finish(&server, job, &json!({ "outcome": "done" }));
    }
    server.stop();
    let pushes = collector.named("push");
    let follows = pushes.iter().find(|span| span["parent"] == json!(run));
    assert_eq!(follows.map(|span| &span["trace"]), Some(&json!(trace)), "{pushes:?}");
}

#[test]
fn a_failing_collector_is_logged_once_and_delays_nothing() {
    let dir = dir();
    // A port without a listener.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let server = serve(dir.path(), port, "otlp");
    for _ in 0..5 {
        push(server.address, &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n"));
    }
    server.wait_for_log("cannot export traces");
    let job = fetch(&server);
    finish(&server, &job, &json!({ "outcome": "done" }));
    let complaints = |text: &str| text.matches("cannot export traces").count();
    eventually(LONG, || {
        // It retries after two seconds, and drops the spans two seconds later.
        let text = text_of(server.address);
        text.contains(r#"crore_spans_total{outcome="dropped"} 5"#).then_some(()).ok_or(text)
    });
    assert_eq!(complaints(&server.log()), 1);
    server.stop();
}

/// The metrics page.
fn text_of(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
