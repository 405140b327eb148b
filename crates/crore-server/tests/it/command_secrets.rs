//! Secrets of the server that commands must not get, and code that handlers must not smuggle into programs.

use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_testkit::{Error, or_skip};
use serde_json::{Value, json};

use crate::binary::{Server, crore, dir};

const COMMANDS: &[&str] = &["--allow-runner", "command"];

fn handler(settings: &Value) -> Value {
    json!({
        "runner": "command",
        "settings": settings,
        "results": { "success": true, "failure": true },
        "retry": { "max_attempts": 1 },
    })
}

fn set(server: &Server, settings: &Value) -> (u16, Value) {
    server.call("PUT", "/v1/handlers/k", Some(&handler(settings)))
}

/// Sets the handler and runs one job of it.
fn run(server: &Server, settings: &Value) -> Value {
    let (status, answer) = set(server, settings);
    assert_eq!(status, 200, "{answer}");
    let pushed = server.post("/v1/jobs", &json!({ "kind": "k", "payload": null }));
    let id = pushed["id"].as_str().expect("an id");
    let ended = server.get(&format!("/v1/jobs/{id}/result?wait=20s"));
    assert_eq!(ended["ended"], true, "{ended}");
    ended
}

#[test]
fn inherited_variables_need_permission_and_are_masked() {
    let dir = dir();
    let mut command =
        crore(dir.path(), &["serve", "--memory", "--listen", "127.0.0.1:0", "--allow-runner"]);
    command.args(["command", "--set", "runners.shell=true"]);
    command.env("CRORE_SECRET_KEY", "hush-hush").env("DATABASE_URL", "postgres://ada");
    let server = Server::spawn(command);
    let settings = json!({ "program": "env", "inherit": ["DATABASE_URL"] });
    let (status, refused) = set(&server, &settings);
    assert_eq!((status, &refused["code"]), (403, &json!("runner-forbidden")), "{refused}");
    assert_eq!(refused["field"], "settings.inherit[0]", "{refused}");
    assert!(refused["detail"].to_string().contains("`env:DATABASE_URL`"), "{refused}");
    let program = "echo key $CRORE_SECRET_KEY >&2; exit 1";
    let settings = json!({ "program": program, "shell": true, "inherit": ["CRORE_SECRET_KEY"] });
    let failed = run(&server, &settings).to_string();
    assert!(failed.contains("key ***") && !failed.contains("hush-hush"), "{failed}");
}

#[test]
fn variables_that_run_code_are_refused_unless_named() {
    let dir = dir();
    let settings = json!({ "program": "true", "env": { "PYTHONSTARTUP": "/tmp/x" } });
    let server = Server::start(dir.path(), &[COMMANDS, &["--memory"]].concat());
    let (status, refused) = set(&server, &settings);
    assert_eq!((status, &refused["code"]), (403, &json!("runner-forbidden")), "{refused}");
    assert_eq!(refused["field"], "settings.env.PYTHONSTARTUP", "{refused}");
    let more = ["--memory", "--set", "runners.code-variables=PYTHON*"];
    let server = Server::start(dir.path(), &[COMMANDS, &more].concat());
    assert_eq!(set(&server, &settings).0, 200);
}

#[test]
fn a_link_does_not_lead_out_of_an_allowed_directory() {
    let dir = dir();
    let allowed = dir.path().join("allowed");
    std::fs::create_dir(&allowed).expect("made");
    symlink("/usr/bin/env", allowed.join("tool")).expect("linked");
    let pattern = format!("runners.programs={}/*", allowed.display());
    let server = Server::start(dir.path(), &[COMMANDS, &["--memory", "--set", &pattern]].concat());
    let ended = run(&server, &json!({ "program": allowed.join("tool") })).to_string();
    assert!(ended.contains("is not allowed") && ended.contains("dead"), "{ended}");
}

#[test]
fn a_command_cannot_read_the_environment_of_the_server() {
    const USER: u32 = 54_321;
    let is_root = match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Error::Unable("only root can start a server of another user".to_owned())),
    };
    if or_skip(is_root).is_none() {
        return;
    }
    let dir = dir();
    chown(dir.path(), Some(USER), Some(USER)).expect("owned");
    // The directory of the build may be closed to other users.
    let binary = dir.path().join("crore");
    std::fs::copy(env!("CARGO_BIN_EXE_crore"), &binary).expect("copied");
    let mut command = Command::new(binary);
    command.args(["serve", "--memory", "--listen", "127.0.0.1:0"]).args(COMMANDS);
    command.env_clear().env("CRORE_SECRET_KEY", "hush-hush").current_dir(dir.path());
    command.uid(USER).gid(USER);
    let server = Server::spawn(command);
    let environ = format!("/proc/{}/environ", server.pid());
    let ended = run(&server, &json!({ "program": "cat", "args": [environ] })).to_string();
    assert!(ended.contains("Permission denied") && !ended.contains("hush-hush"), "{ended}");
    let own = run(&server, &json!({ "program": "env" }));
    let own =
        STANDARD.decode(own["result_base64"].as_str().expect("a text result")).expect("Base64");
    let own = String::from_utf8(own).expect("UTF-8");
    assert!(own.contains("CRORE_JOB"), "a command has an environment of its own: {own}");
}
