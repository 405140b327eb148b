//! The input of commands: payload, arguments, environment.

use std::collections::BTreeSet;

use serde_json::json;

use super::hosts;
use crate::command_fixture::{run, text};

async fn printed(settings: serde_json::Value, payload: &[u8]) -> String {
    text(&run(&settings, payload).await.expect("it succeeds"))
}

#[tokio::test]
async fn the_payload_is_the_standard_input_by_default() {
    let all: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let output = run(&json!({ "program": "cat" }), &all).await.expect("it succeeds");
    assert!(output.items[0].bytes == all, "{} bytes", output.items[0].bytes.len());
    assert_eq!(printed(json!({ "program": "cat", "payload": "none" }), b"unread").await, "");
    assert_eq!(printed(json!({ "program": "cat", "payload": "lines" }), b"/dev/null").await, "");
}

#[tokio::test]
async fn arguments_are_not_expanded_by_a_shell() {
    let hostile = ["; id", "$(id)", "`id`", "a b", "*", "$HOME", "| id", "> /tmp/x", "'\"", "-n"];
    let settings =
        |payload: &str| json!({ "program": "printf", "args": ["<%s>\\n"], "payload": payload });
    let expected: String = hostile.iter().map(|arg| format!("<{arg}>\n")).collect();
    let lines = hostile.join("\n");
    assert_eq!(printed(settings("lines"), lines.as_bytes()).await, expected);
    let array = json!(hostile).to_string();
    assert_eq!(printed(settings("args"), array.as_bytes()).await, expected);
    let script = json!({ "program": "printf '<%s>\\n' \"$@\"", "shell": true, "payload": "args" });
    assert_eq!(printed(script, array.as_bytes()).await, expected);
}

#[tokio::test]
async fn a_script_has_its_arguments_as_numbers() {
    let settings =
        json!({ "program": "echo $0 $1 $2", "args": ["a"], "shell": true, "payload": "lines" });
    assert_eq!(printed(settings, b"b").await, "sh a b\n");
}

#[tokio::test]
async fn the_environment_has_only_configured_and_job_variables() {
    let settings = json!({
        "program": "/usr/bin/env",
        "env": { "WORD": "a value", "PLACE": "env:HOME" },
        "inherit": ["CARGO_MANIFEST_DIR", "NO_SUCH_VARIABLE"],
    });
    let printed = printed(settings, b"").await;
    let names: BTreeSet<_> = printed.lines().filter_map(|line| line.split('=').next()).collect();
    let mut expected = BTreeSet::from([
        "PATH",
        "WORD",
        "PLACE",
        "CARGO_MANIFEST_DIR",
        "CRORE_JOB",
        "CRORE_KIND",
        "CRORE_ATTEMPT",
        "CRORE_RUN",
        "TRACEPARENT",
        "HOME",
    ]);
    if std::env::var_os("LANG").is_some() {
        expected.insert("LANG");
    }
    assert_eq!(names, expected);
    for line in [
        "WORD=a value",
        "CRORE_JOB=7",
        "CRORE_KIND=resize",
        "CRORE_ATTEMPT=2",
        "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} in {printed}");
    }
}

#[test]
fn ld_preload_of_the_host_does_not_reach_its_commands() {
    let printed = hosts::run("prints_its_environment", &[("LD_PRELOAD", "/no/such.so")]);
    assert!(printed.contains("host: /no/such.so"), "{printed}");
    assert!(printed.contains("CRORE_JOB=7") && !printed.contains("LD_PRELOAD="), "{printed}");
}

#[tokio::test]
async fn a_command_starts_in_its_configured_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().canonicalize().expect("a path");
    assert_eq!(
        printed(json!({ "program": "pwd", "dir": dir }), b"").await,
        format!("{}\n", dir.display())
    );
}

#[tokio::test]
async fn a_command_inherits_no_open_files_of_the_host() {
    let file = tempfile::tempfile().expect("a file");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    // Descriptors that this process itself inherited are passed on.
    let passed_on = |number: &str| {
        let info =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0").trim();
        u64::from_str_radix(flags, 8).unwrap_or_default() & 0o2_000_000 == 0
    };
    let printed = printed(json!({ "program": "ls", "args": ["/proc/self/fd"] }), b"").await;
    let open = printed.lines().filter(|number| !["0", "1", "2"].contains(number));
    let open: Vec<_> = open.filter(|number| !passed_on(number)).collect();
    assert!(open.len() <= 1, "only the folder that it lists: {open:?}");
    drop((file, socket));
}
