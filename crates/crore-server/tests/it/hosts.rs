//! `crore worker`, with a reachable and an unreachable server; and handlers in the server itself.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crore_testkit::eventually;
use serde_json::json;

use crate::binary::{LONG, Server, crore, dir};

const COMMANDS: &[&str] = &["--allow-runner", "command"];

/// A `crore worker` with its log in a file.
struct Host {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Host {
    fn start(dir: &Path, url: &str, more: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let arguments = [&["worker", "--server", url], COMMANDS, more].concat();
        let mut command = crore(dir, &arguments);
        command.stderr(Stdio::from(log.reopen().expect("the file")));
        Self { child: command.spawn().expect("started"), log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("read")
    }

    /// How often its log contains a text.
    fn count_in_log(&self, what: &str) -> usize {
        self.log().matches(what).count()
    }

    #[track_caller]
    fn wait_for_log(&self, what: &str) {
        eventually(LONG, || match self.log() {
            text if text.contains(what) => Ok(()),
            text => Err(text),
        });
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Its exit code.
    fn wait(&mut self) -> Option<i32> {
        eventually(LONG, || self.child.try_wait().expect("a child")).code()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_host_serves_the_listed_channels_or_the_default() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--no-runners"]);
    let queues = |host: &str| {
        let workers = server.get("/v1/workers")["workers"].as_array().cloned().unwrap_or_default();
        let of = |name: &str| name.strip_prefix(host)?.strip_prefix('/').map(str::to_owned);
        let names = workers.iter().filter_map(|worker| of(worker["name"].as_str()?));
        names.collect::<Vec<_>>()
    };
    let host = Host::start(dir.path(), &server.url(), &["--name", "one", "--channel", "gpu=1"]);
    host.wait_for_log("channels=\"gpu=1\" allowed_runners=\"command\"");
    eventually(LONG, || (!queues("one").is_empty()).then_some(()));
    let usual = Host::start(dir.path(), &server.url(), &["--name", "two"]);
    eventually(LONG, || (queues("two") == ["default"]).then_some(()));
    assert_eq!(queues("one"), ["gpu"]);
    drop((host, usual));
    server.stop();
}

#[test]
fn a_second_signal_stops_a_host_immediately() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--no-runners", "--allow-runner", "command"]);
    let handler =
        json!({ "runner": "command", "settings": { "program": "sleep", "args": ["600"] } });
    server.call("PUT", "/v1/handlers/slow", Some(&handler));
    let mut host = Host::start(dir.path(), &server.url(), &["--drain-for", "10m"]);
    let id = server.post("/v1/jobs", &json!({ "kind": "slow" }))["id"].clone();
    let id = id.as_str().expect("an id");
    eventually(LONG, || {
        (server.get(&format!("/v1/jobs/{id}"))["state"] == "running").then_some(())
    });
    host.signal("TERM");
    host.wait_for_log("shutting down: waiting for jobs to finish");
    host.signal("INT");
    assert_eq!(host.wait(), Some(1), "{}", host.log());
    assert!(host.log().contains("second signal"), "{}", host.log());
    server.stop_soon();
}

#[test]
fn a_host_retries_an_unreachable_server_and_logs_each_attempt() {
    let dir = dir();
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let url = format!("http://{address}");
    let mut host = Host::start(dir.path(), &url, &["--name", "early"]);
    eventually(LONG, || (host.count_in_log("cannot be reached; trying again") >= 2).then_some(()));
    let server = Server::start_at(dir.path(), address);
    eventually(LONG, || {
        let workers = server.get("/v1/workers")["workers"].to_string();
        workers.contains("early/default").then_some(())
    });
    host.signal("TERM");
    assert_eq!(host.wait(), Some(0), "{}", host.log());
    server.stop();

    // A worker that is not connected yet stops on a signal as well.
    let mut host = Host::start(dir.path(), &url, &[]);
    host.wait_for_log("trying again");
    host.signal("TERM");
    assert_eq!(host.wait(), Some(0), "{}", host.log());
}

#[test]
fn a_host_that_is_refused_does_not_try_again() {
    let dir = dir();
    let write = |name: &str, text: String| {
        std::fs::write(dir.path().join(name), text).expect("written");
    };
    for name in ["ca", "other"] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("good");
        write(&format!("{name}.pem"), params.self_signed(&key).expect("a certificate").pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    let tls = ["--set", "tls.certificate=other.pem", "--set", "tls.key=other.key"];
    let server = Server::start(dir.path(), &[&["--memory"], &tls[..]].concat());
    let url = format!("https://{}", server.address);
    let mut host = Host::start(dir.path(), &url, &["--ca", "ca.pem"]);
    assert_eq!(host.wait(), Some(5), "{}", host.log());
    assert!(host.log().contains("certificate"), "{}", host.log());
    assert_eq!(host.count_in_log("trying again"), 0, "{}", host.log());
    server.stop();

    let server = Server::start(dir.path(), &[]);
    // The server does not speak TLS, so a retry is pointless.
    let url = format!("https://{}", server.address);
    let mut host = Host::start(dir.path(), &url, &["--ca", "ca.pem"]);
    assert_eq!(host.wait(), Some(5), "{}", host.log());
    assert_eq!(host.count_in_log("trying again"), 0, "{}", host.log());
    server.run(&["token", "create", "ops", "--preset", "admin"]).success();
    let mut host = Host::start(dir.path(), &server.url(), &[]);
    assert_eq!(host.wait(), Some(1), "{}", host.log());
    assert_eq!(host.count_in_log("trying again"), 0, "{}", host.log());
    assert!(host.log().contains("token"), "{}", host.log());
    server.stop();
}

#[test]
fn a_server_logs_its_runners() {
    let dir = dir();
    let more = ["--memory", "--channel", "default=3", "--channel", "gpu=1"];
    let server = Server::start(dir.path(), &more);
    server.wait_for_log("channels=\"default=3 gpu=1\" allowed_runners=\"none\"");
    server.stop();
}

#[test]
fn jobs_of_a_killed_server_run_again_as_soon_as_it_is_back() {
    let dir = dir();
    let start = |address: &str| {
        let arguments = ["serve", "--listen", address, "--set", "runners.shell=true"];
        Server::spawn(crore(dir.path(), &[&arguments, COMMANDS].concat()))
    };
    let mut server = start("127.0.0.1:0");
    let marks = dir.path().join("marks");
    // The first run never ends; the next one does at once.
    let script =
        format!("echo $CRORE_JOB >> {0}; [ $(wc -l < {0}) -gt 1 ] || sleep 600", marks.display());
    let settings = json!({ "program": script, "shell": true }).to_string();
    server.run(&["handler", "set", "k", "command", &settings, "--keep-result", "1h"]).success();
    server.run(&["job", "push", "k", "null"]).success();
    eventually(LONG, || marks.exists());
    // A claim is not synced by itself; the next push writes it to the log.
    server.run(&["job", "push", "other", "null"]).success();
    server.signal("KILL");
    server.wait();
    let server = start(&server.address.to_string());
    // Its lease would last half a minute.
    eventually(LONG, || {
        let job = server.get("/v1/jobs/1");
        if job["state"] == "done" { Ok(()) } else { Err(job) }
    });
    assert!(server.log().contains("jobs of a killed server run again"), "{}", server.log());
    assert_eq!(std::fs::read_to_string(marks).expect("written"), "1\n1\n");
    server.stop();
}
