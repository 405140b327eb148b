//! Push workers in Python that crash, hang, answer garbage or redirect.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{LONG, Server, dir};

/// A worker process that ends with its test.
struct Worker(Child);

impl Worker {
    fn start(server: &Server, how: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/posted/worker.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(server.address.port().to_string()).args(how);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut first = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut first).expect("a message");
        assert_eq!(first, "ready\n");
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have crashed on purpose.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server() -> (tempfile::TempDir, Server) {
    let dir = dir();
    let set = ["lightjq.rest=20ms", "lightjq.max-rest=100ms"];
    let server = Server::start(dir.path(), &["--set", set[0], "--set", set[1]]);
    (dir, server)
}

fn push(server: &Server, name: &str, more: &Value) -> String {
    let mut job = json!({ "name": name, "argument": { "of": name }, "keep_result": true });
    let more = more.as_object().expect("an object").clone();
    job.as_object_mut().expect("an object").extend(more);
    server.post("/job", &job)["job_id"].as_str().expect("an id").to_owned()
}

/// How a job ended.
fn ended(server: &Server, id: &str) -> Value {
    server.get(&format!("/job/{id}/polling?timeout=30"))
}

#[test]
fn python_workers_get_jobs_and_report() {
    let (_dir, server) = server();
    let _workers = [Worker::start(&server, &[]), Worker::start(&server, &[])];
    for name in ["good", "later"] {
        let ids: Vec<String> = (0..10).map(|_| push(&server, name, &json!({}))).collect();
        for id in ids {
            let job = ended(&server, &id);
            assert_eq!((&job["status"], &job["result"]), (&json!("done"), &json!({ "of": name })));
            assert_eq!(job["retry_count"], 0);
        }
    }
    server.stop();
}

#[test]
fn garbage_and_silence_fail_the_job_and_nothing_else() {
    let (_dir, server) = server();
    let _workers = [Worker::start(&server, &[]), Worker::start(&server, &[])];
    let garbage = push(&server, "garbage", &json!({ "max_retry": 0 }));
    let hang = push(&server, "hang", &json!({ "max_retry": 0, "timeout": 1 }));
    let good = push(&server, "good", &json!({}));
    let job = ended(&server, &garbage);
    assert_eq!(job["status"], "error", "{job}");
    assert!(job["message"].as_str().expect("a text").contains("is not a valid report"), "{job}");
    let job = ended(&server, &hang);
    assert_eq!((&job["status"], &job["message"]), (&json!("error"), &json!("timed out")));
    assert_eq!(ended(&server, &good)["status"], "done");
    server.stop();
}

#[test]
fn redirects_to_metadata_addresses_are_not_followed_and_cost_no_attempt() {
    let (_dir, server) = server();
    let _worker = Worker::start(&server, &[]);
    let id = push(&server, "redirect", &json!({ "max_retry": 0 }));
    server.wait_for_log("answered with a redirect");
    eventually(LONG, || {
        let text = server.log();
        (text.matches("answered with a redirect").count() > 2).then_some(()).ok_or(text)
    });
    // It is retried without counting attempts: the job is not at fault.
    let job = server.get(&format!("/job/{id}"));
    assert_eq!((&job["retry_count"], &job["error"]), (&json!(0), &Value::Null), "{job}");
    assert_ne!(job["status"], "error", "{job}");
    server.stop_soon();
}

#[test]
fn a_job_that_crashes_workers_is_given_to_the_next_one() {
    let (_dir, server) = server();
    let mut weak = [Worker::start(&server, &[]), Worker::start(&server, &[])];
    let id = push(&server, "die", &json!({ "max_retry": 5 }));
    // Each tries it once, and crashes.
    for worker in &mut weak {
        eventually(LONG, || worker.0.try_wait().expect("a child"));
    }
    assert_ne!(server.get(&format!("/job/{id}"))["status"], "error");
    let _tough = Worker::start(&server, &["tough"]);
    let job = ended(&server, &id);
    assert_eq!((&job["status"], &job["retry_count"]), (&json!("done"), &json!(2)), "{job}");
    server.stop();
}
