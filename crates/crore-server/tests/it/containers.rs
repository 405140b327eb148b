//! Containers of killed hosts, with the built binary and a real engine.

use std::path::Path;
use std::process::{Child, Stdio};

use crore_testkit::{DebianPackage, DockerServer, eventually, install_missing, or_skip};
use serde_json::json;

use crate::binary::{LONG, Server, crore, dir};

/// A Docker engine; skips the test loudly if there is none.
fn engine() -> Option<DockerServer> {
    if let Err(error) = install_missing(&[DebianPackage::Docker, DebianPackage::Busybox]) {
        eprintln!("{error}");
    }
    or_skip(DockerServer::start())
}

/// Ids of the containers that run jobs of a kind.
fn containers(engine: &DockerServer, kind: &str) -> Vec<String> {
    let format = "{{.ID}} {{.Command}}";
    let listed = engine.command(&["ps", "--all", "--no-trunc", "--format", format]);
    let listed = listed.expect("a list");
    let of_kind = listed.lines().filter(|line| line.contains(kind));
    of_kind.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Waits for the one container of a kind.
fn one(engine: &DockerServer, kind: &str) -> String {
    eventually(LONG, || containers(engine, kind).pop())
}

/// Waits until a container is removed.
#[track_caller]
fn gone(engine: &DockerServer, kind: &str, id: &str) {
    eventually(LONG, || match containers(engine, kind) {
        all if all.iter().any(|one| one == id) => Err(all),
        _ => Ok(()),
    });
}

/// A `crore worker` for one queue.
struct Host(Child);

impl Host {
    fn start(dir: &Path, server: &Server, engine: &str, queue: &str) -> Self {
        let (url, channel) = (server.url(), format!("{queue}=1"));
        let address = format!("runners.docker={engine}");
        let arguments = ["worker", "--server", &url, "--channel", &channel, "--set", &address];
        let more = ["--allow-runner", "docker", "--set", "runners.state=hosts"];
        let mut command = crore(dir, &[&arguments[..], &more].concat());
        Self(command.stderr(Stdio::null()).spawn().expect("started"))
    }

    /// Kills it, like `kill -9`.
    fn kill(mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("removed");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_host_removes_leftovers_of_dead_hosts_only() {
    let Some(engine) = engine() else { return };
    let dir = dir();
    let address = engine.address();
    let docker = format!("runners.docker={address}");
    let serve = ["--allow-runner", "docker", "--set", &docker];
    let server = Server::start(dir.path(), &serve);
    // The server runs one container, a worker another, and a third host shares the worker's state directory.
    let handler = |kind: &str, queue: &str| {
        let cmd = ["sh", "-c", &format!("echo {kind}; sleep 600")];
        let settings = json!({ "image": DockerServer::IMAGE, "cmd": cmd, "grace": "100ms" });
        let handler = json!({ "runner": "docker", "queue": queue, "settings": settings });
        let (status, answer) = server.call("PUT", &format!("/v1/handlers/{kind}"), Some(&handler));
        assert_eq!(status, 200, "{answer}");
        server.post("/v1/jobs", &json!({ "kind": kind }));
    };
    handler("within", "default");
    handler("first", "one");
    handler("second", "two");
    let first = Host::start(dir.path(), &server, &address, "one");
    let second = Host::start(dir.path(), &server, &address, "two");
    let of_server = one(&engine, "within");
    let (of_first, of_second) = (one(&engine, "first"), one(&engine, "second"));
    let foreign = engine.command(&["run", "--detach", DockerServer::IMAGE, "sleep", "600"]);
    let foreign = foreign.expect("it runs");

    first.kill();
    assert_eq!(one(&engine, "first"), of_first, "no process was left to remove it");
    // Through another address of the same engine.
    let way = dir.path().join("way.sock");
    std::os::unix::fs::symlink(engine.process().dir().join("docker.sock"), &way).expect("linked");
    let address = format!("unix://{}", way.display());
    let again = Host::start(dir.path(), &server, &address, "one");
    gone(&engine, "first", &of_first);
    // The job of the killed host runs again, and the containers of the others stay.
    let of_again = one(&engine, "first");
    assert_eq!((one(&engine, "within"), one(&engine, "second")), (of_server.clone(), of_second));

    let port = server.address;
    server.signal("KILL");
    drop(server);
    assert_eq!(one(&engine, "within"), of_server);
    let listen = port.to_string();
    let server =
        Server::start_with(dir.path(), "serve", &[&serve[..], &["--listen", &listen]].concat());
    server.wait_for_log("removed container left by a dead host");
    gone(&engine, "within", &of_server);
    assert_eq!(one(&engine, "first"), of_again, "its host lives");
    let running = engine.command(&["inspect", "--format", "{{.State.Running}}", &foreign]);
    assert_eq!(running.expect("it exists").trim(), "true", "it does not belong to crore");
    again.kill();
    second.kill();
    server.stop_soon();
}
