//! `crore top` on a real terminal, by tmux.

use std::path::Path;
use std::process::Command;

use crore_testkit::{DebianPackage, eventually, or_skip};
use serde_json::json;

use crate::binary::{LONG, Server, dir};

const TMUX: DebianPackage = DebianPackage::Tmux;

/// A terminal of 120 × 40 characters in which one command runs.
struct Tmux<'a> {
    program: std::path::PathBuf,
    dir: &'a Path,
}

impl Tmux<'_> {
    fn run(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new(&self.program);
        tmux.arg("-S").arg(self.dir.join("tmux")).args(["-f", "/dev/null"]).args(arguments);
        let output = tmux.env("LC_ALL", "C.UTF-8").env_remove("TMUX").output().expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn start(&self, command: &str) {
        self.run(&["new-session", "-d", "-x", "120", "-y", "40", command]);
    }

    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows a text.
    fn shows(&self, text: &str) {
        let found = || self.screen().contains(text);
        eventually(LONG, || {
            found()
                .then_some(())
                .ok_or_else(|| format!("`{text}` is not shown:\n{}", self.screen()))
        });
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn top_shows_a_server_and_acts_on_it() {
    let Some(program) = or_skip(TMUX.require_program("tmux")) else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    for to in ["ada", "bob"] {
        server.post("/v1/jobs", &json!({"kind": "mail", "payload": {"to": to}}));
    }
    let tmux = Tmux { program, dir: dir.path() };
    let command =
        format!("{} top --interval 100ms --server {}", env!("CARGO_BIN_EXE_crore"), server.url());
    tmux.start(&command);
    tmux.shows("2 ready");
    tmux.shows("mail");
    tmux.keys(&["p"]);
    tmux.shows("Pause queue mail?");
    tmux.keys(&["y"]);
    tmux.shows("(paused)");
    assert_eq!(server.get("/v1/queues/mail")["paused"], true);
    tmux.keys(&["Enter"]);
    tmux.shows("Filter: queue:mail");
    tmux.keys(&["/"]);
    tmux.keys(&["-l", " payload.to=bob"]);
    tmux.keys(&["Enter"]);
    tmux.shows("Filter: queue:mail payload.to=bob");
    tmux.keys(&["Enter"]);
    tmux.shows(r#"{"to":"bob"}"#);
    tmux.keys(&["c"]);
    tmux.shows("Cancel job 2?");
    tmux.keys(&["y"]);
    tmux.shows("● cancelled");
    assert_eq!(server.get("/v1/jobs/2")["state"], "cancelled");
    assert_eq!(server.get("/v1/jobs/1")["state"], "ready");
    tmux.keys(&["q"]);
    eventually(LONG, || tmux.screen().trim().is_empty());
    server.stop();
}

#[test]
fn top_needs_a_terminal_and_a_server() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let piped = server.run(&["top"]);
    assert_eq!(piped.code, Some(2), "{piped:?}");
    assert!(piped.err.contains("needs a terminal"), "{piped:?}");
    server.stop();
}
