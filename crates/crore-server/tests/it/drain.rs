//! Graceful shutdown.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{LONG, Server, call, dir};

fn fetch(server: &Server) -> Value {
    server.post("/v1/jobs", &json!({ "kind": "a" }));
    server.post("/v1/fetch", &json!({ "queues": ["a"], "worker": "w" }))["jobs"][0].clone()
}

fn done(job: &Value) -> Value {
    let report = json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "done" });
    json!({ "jobs": [report] })
}

#[test]
fn a_stopping_server_refuses_new_jobs_and_lets_workers_finish() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &[]);
    let job = fetch(&server);
    server.post("/v1/jobs", &json!({ "kind": "a" }));

    // A fetch on another queue returns without a job.
    let address = server.address;
    let waits = thread::spawn(move || {
        let ask = json!({ "queues": ["b"], "wait": "60s", "worker": "w" });
        call(address, "POST", "/v1/fetch", Some(&ask)).expect("an answer")
    });
    server.signal("TERM");
    server.wait_for_log("shutting down");
    assert_eq!(waits.join().expect("no panic"), (200, json!({ "jobs": [] })));

    assert_eq!(
        server.post("/v1/fetch", &json!({ "queues": ["a"], "worker": "w" })),
        json!({ "jobs": [] })
    );
    let (status, problem) = server.call("POST", "/v1/jobs", Some(&json!({ "kind": "a" })));
    assert_eq!((status, &problem["code"]), (503, &json!("stopping")));
    assert_eq!(server.call("GET", "/readyz", None).0, 503);

    server.post("/v1/finish", &done(&job));
    assert!(server.wait().success());

    let server = Server::start(dir.path(), &[]);
    let id = job["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["state"], "done");
    assert_eq!(server.get("/v1/jobs?state=ready")["jobs"].as_array().map(Vec::len), Some(1));
    server.stop();
}

#[test]
fn a_draining_server_returns_ends_and_results_of_jobs() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--drain-for", "1h"]);
    let mut ids = Vec::new();
    for n in 0..20 {
        let keep = json!({ "kind": "a", "keep_result": "1h", "read_once": true });
        server.post("/v1/jobs", &keep);
        let job = server.post("/v1/fetch", &json!({ "queues": ["a"] }))["jobs"][0].clone();
        let mut report = done(&job);
        report["jobs"][0]["result"] = json!(n);
        server.post("/v1/finish", &report);
        ids.push(job["id"].as_str().expect("an id").to_owned());
    }
    let held = fetch(&server);
    server.signal("TERM");
    server.wait_for_log("shutting down");
    for (n, id) in ids.iter().enumerate() {
        let ended = server.get(&format!("/v1/jobs/{id}/result"));
        assert_eq!((&ended["ended"], &ended["result"]), (&json!(true), &json!(n)), "{ended}");
    }
    server.post("/v1/finish", &done(&held));
    assert!(server.wait().success());
}

#[test]
fn a_job_that_is_handed_back_while_the_server_drains_costs_no_attempt() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &[]);
    let job = fetch(&server);
    server.signal("TERM");
    server.wait_for_log("shutting down");
    let report = json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "interrupted" });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    assert!(server.wait().success());

    let server = Server::start(dir.path(), &[]);
    let again = server.post("/v1/fetch", &json!({ "queues": ["a"], "worker": "w" }));
    assert_eq!((&again["jobs"][0]["id"], &again["jobs"][0]["attempt"]), (&job["id"], &json!(1)));
    server.stop_soon();
}

#[test]
fn a_slow_worker_keeps_its_job_across_a_restart() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--drain-for", "100ms"]);
    let job = fetch(&server);
    server.signal("INT");
    assert!(server.wait().success());
    assert!(server.log().contains("may report them after a restart"), "{}", server.log());

    let server = Server::start(dir.path(), &[]);
    assert_eq!(
        server.post("/v1/fetch", &json!({ "queues": ["a"], "worker": "x" })),
        json!({ "jobs": [] })
    );
    server.post("/v1/finish", &done(&job));
    let id = job["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["state"], "done");
    server.stop();
}

#[test]
fn a_worker_missing_after_a_restart_costs_no_attempt() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--drain-for", "100ms"]);
    server.post("/v1/jobs", &json!({ "kind": "a", "lease": "1s", "retry": { "max_attempts": 1 } }));
    let job =
        server.post("/v1/fetch", &json!({ "queues": ["a"], "worker": "w" }))["jobs"][0].clone();
    assert_eq!(job["attempt"], 1);
    server.signal("TERM");
    assert!(server.wait().success());

    let server = Server::start(dir.path(), &[]);
    let ask = json!({ "queues": ["a"], "worker": "x", "wait": "20s" });
    let again = server.post("/v1/fetch", &ask)["jobs"][0].clone();
    assert_eq!(
        (&again["id"], &again["attempt"]),
        (&job["id"], &json!(1)),
        "it is still the last attempt"
    );
    // And the first worker is too late.
    let late = server.post("/v1/finish", &done(&job));
    assert_eq!(late["jobs"][0]["status"], "stale", "{late}");
    server.post("/v1/finish", &done(&again));
    server.stop();
}

/// A push worker: accepts one call, and answers it with this when signalled.
fn worker_at(answer: &'static str) -> (u16, mpsc::Receiver<String>, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (sender, calls) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        let mut call = [0; 4096];
        let n = stream.read(&mut call).expect("a request");
        sender.send(String::from_utf8_lossy(&call[..n]).into_owned()).expect("received");
        let _ = may_go.recv();
        // The server may be gone by then.
        let _ = stream.write_all(answer.as_bytes());
    });
    (port, calls, go)
}

/// A LightJQ job for which a push worker has been called: its id, and the worker's.
fn called(server: &Server, port: u16, calls: &mpsc::Receiver<String>) -> (String, String) {
    let text = |answer: &Value, field: &str| answer[field].as_str().expect("a text").to_owned();
    let url = format!("http://127.0.0.1:{port}");
    let worker = server.post("/worker", &json!({ "name": "w", "max_jobs": 1, "url": url }));
    let job = server.post(
        "/job",
        &json!({ "name": "mail", "argument": {}, "keep_result": true, "max_retry": 0 }),
    );
    let call = calls.recv_timeout(LONG).expect("a call");
    assert!(call.starts_with("POST /worker-job"), "{call}");
    (text(&job, "job_id"), text(&worker, "worker_id"))
}

#[test]
fn a_push_worker_called_before_a_shutdown_reports_to_the_next_server() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--drain-for", "100ms"]);
    let (port, calls, go) = worker_at("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let (job, worker) = called(&server, port, &calls);
    server.signal("TERM");
    assert!(server.wait().success());
    drop(go);

    let server = Server::start(dir.path(), &[]);
    let stands = server.get(&format!("/v1/jobs/{job}"));
    assert_eq!((&stands["state"], &stands["attempt"]), (&json!("running"), &json!(1)), "{stands}");
    let report = json!({ "job_id": job, "type": "success", "result": 7 }).to_string();
    let head = format!(
        "POST /done HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nworker-id: {worker}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{report}",
        server.address,
        report.len()
    );
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    let done = server.get(&format!("/job/{job}"));
    assert_eq!((&done["status"], &done["result"]), (&json!("done"), &json!(7)), "{done}");
    server.stop();
}

#[test]
fn a_push_worker_may_respond_while_the_server_drains() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--drain-for", "1h"]);
    let (port, calls, go) = worker_at("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let (job, _) = called(&server, port, &calls);
    server.signal("TERM");
    server.wait_for_log("shutting down");
    go.send(()).expect("it listens");
    assert!(server.wait().success());
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get(&format!("/job/{job}"))["status"], "done");
    server.stop();
}

#[test]
fn a_second_signal_exits_immediately_and_loses_nothing() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--drain-for", "1h"]);
    let job = fetch(&server);
    server.signal("TERM");
    server.wait_for_log("shutting down");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(1));

    let server = Server::start(dir.path(), &[]);
    let id = job["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["state"], "running");
    server.stop_soon();
}

#[test]
fn event_listeners_do_not_delay_a_shutdown() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &[]);
    let mut stream = TcpStream::connect(server.address).expect("connected");
    let head = format!("GET /v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).expect("written");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    server.signal("TERM");
    assert!(server.wait().success());
    eventually(LONG, || stream.read(&mut first).is_ok_and(|n| n == 0));
}
