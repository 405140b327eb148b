//! The Lakh examples in Python: a worker and a producer against the built server.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crore_testkit::{Pypi, eventually, or_skip};
use serde_json::Value;

use crate::binary::{FinishedCommand, LONG, Server, dir};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lakh");

/// Python with gRPC, if available.
fn python() -> Option<PathBuf> {
    Some(or_skip(Pypi::GrpcTools.programs())?.join("python"))
}

fn example(python: &Path, name: &str, server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.arg(format!("{EXAMPLES}/{name}.py")).args(["--server", server]).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn client(python: &Path, server: &str, arguments: &[&str]) -> String {
    FinishedCommand::of(example(python, "client", server, arguments).output().expect("it runs"))
        .success()
}

/// A worker that prints each step; it ends with its test.
struct Worker {
    child: Child,
    says: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Worker {
    fn start(python: &Path, server: &str, arguments: &[&str]) -> Self {
        let mut command = example(python, "worker", server, arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let says = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut worker = Self { child, says };
        worker.until("joined");
        worker
    }

    /// Reads lines until one contains this text.
    fn until(&mut self, what: &str) {
        while self.next() != what {}
    }

    fn next(&mut self) -> String {
        self.says.next().expect("a message").expect("UTF-8")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses of the door, IPv4 and IPv6.
fn doors(server: &Server) -> Vec<String> {
    let output = server.stdout();
    let doors = output.lines().filter_map(|line| line.strip_prefix("door lakh: http://"));
    doors.map(ToOwned::to_owned).collect()
}

/// Number of jobs in a state.
fn count(server: &Server, state: &str) -> usize {
    let found = server.get(&format!("/v1/jobs?state={state}"));
    found["jobs"].as_array().map_or(0, Vec::len)
}

#[test]
fn python_clients_use_the_door_over_ipv4_and_ipv6() {
    let Some(python) = python() else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &["--door", "lakh=0"]);
    let doors = doors(&server);
    assert!(doors[0].starts_with("127.0.0.1:"), "{doors:?}");
    let last = doors.last().expect("there is one");
    let mut worker = Worker::start(&python, last, &["greet", "--jobs", "4"]);
    let output = client(&python, &doors[0], &["greet", "Ada", "Grace", "--times", "2"]);
    assert!(output.ends_with("taken\n"), "{output}");
    assert_eq!([worker.next(), worker.next()], ["hello Ada Grace", "hello Ada Grace"]);
    // On the main port as well; and without a reservation, no report is expected.
    let main = server.address.to_string();
    client(&python, &main, &["greet", "Alan", "--reserve", "0"]);
    assert_eq!(worker.next(), "hello Alan");
    client(&python, &main, &["greet", "--id", "nobody"]);
    assert_eq!(worker.next(), "failed nobody nobody to greet");
    worker.until("ran 4");
    eventually(LONG, || {
        let seen = (count(&server, "done"), count(&server, "scheduled"));
        if seen == (3, 1) { Ok(()) } else { Err(seen) }
    });
    let retried = server.get("/v1/jobs?state=scheduled")["jobs"][0].clone();
    assert_eq!((&retried["attempt"], &retried["kind"]), (&Value::from(1), &Value::from("greet")));
    assert_eq!(client(&python, &main, &["--dead"]), "");
    server.stop();
}

#[test]
fn jobs_survive_a_killed_server_and_the_worker_reconnects() {
    let Some(python) = python() else { return };
    let dir = dir();
    let mut server = Server::start(dir.path(), &[]);
    let address = server.address.to_string();
    let mut worker = Worker::start(&python, &address, &["nap", "--jobs", "2"]);
    client(&python, &address, &["greet", "Ada", "--id", "waits"]);
    server.signal("KILL");
    server.wait();
    worker.until("the server is unavailable; retrying");
    let server = Server::start(dir.path(), &["--listen", &address]);
    client(&python, &address, &["nap", "0", "--times", "2"]);
    worker.until("ran 2");
    eventually(LONG, || {
        let seen = (count(&server, "done"), count(&server, "ready"));
        if seen == (2, 1) { Ok(()) } else { Err(seen) }
    });
    server.stop();
}
