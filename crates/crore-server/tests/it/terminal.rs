//! Commands on a terminal: confirmations, and characters that a terminal would interpret.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::binary::{FinishedCommand, Server, dir};

/// Runs a command on a pseudo-terminal, by `script`, with this input. Its two streams are one.
fn on_terminal(server: &Server, dir: &Path, arguments: &str, input: &str) -> FinishedCommand {
    let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_crore"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
    script.env("CRORE_SERVER", server.url()).current_dir(dir);
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn().expect("script runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    FinishedCommand::of(output)
}

fn count(server: &Server) -> usize {
    server.get("/v1/jobs")["jobs"].as_array().map_or(0, Vec::len)
}

#[test]
fn many_jobs_are_changed_without_a_terminal_only_with_a_flag() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    for _ in 0..3 {
        server.run(&["job", "push", "mail"]).success();
    }
    for (act, word) in [("rm", "delete"), ("cancel", "cancel"), ("retry", "retry")] {
        let (state, n) = if act == "retry" { ("cancelled", 3) } else { ("ready", 3) };
        if act == "retry" {
            server.run(&["job", "cancel", "--queue", "mail", "--yes"]).success();
        }
        let select = ["job", act, "--state", state];
        let would = server.run(&[&select[..], &["--dry-run"]].concat()).success();
        assert_eq!(would, format!("would {word} {n} jobs\n"));
        let refused = server.run(&select);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let (err, asks) = (&refused.err, format!("set `--yes` to {word} {n} jobs"));
        assert!(err.contains(&asks) && err.contains("--dry-run"), "{err}");
        let left = server.get(&format!("/v1/jobs?state={state}"));
        assert_eq!(left["jobs"].as_array().map(Vec::len), Some(n), "{act} changed something");
    }
    server.run(&["job", "rm", "--all", "-y"]).success();
    assert_eq!(count(&server), 0);
    let none = server.run(&["job", "rm", "--all"]).success();
    assert!(none.contains("done"), "nothing to confirm: {none}");
    server.stop();
}

#[test]
fn a_terminal_is_asked_before_many_jobs_are_changed() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    server.run(&["job", "push", "mail"]).success();
    let no = on_terminal(&server, dir.path(), "job rm --queue mail", "n\n");
    assert_eq!(no.code, Some(1), "{no:?}");
    assert!(no.out.contains("delete 1 job? [y/N]") && no.out.contains("nothing was"), "{no:?}");
    assert_eq!(count(&server), 1);
    let yes = on_terminal(&server, dir.path(), "job rm --queue mail", "y\n");
    assert_eq!((yes.code, count(&server)), (Some(0), 0), "{yes:?}");
    server.stop();
}

#[test]
fn stored_texts_cannot_control_a_terminal() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let harmful = "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}txt";
    let push = json!({ "kind": "mail", "payload": harmful, "keep_result": "1h", "labels": { "a": "\u{202e}txt" } });
    server.post("/v1/jobs", &push);
    let fetched = server.post("/v1/fetch", &json!({ "queues": ["mail"] }))["jobs"][0].clone();
    let report = json!({ "id": fetched["id"], "delivery": fetched["delivery"], "outcome": "failed",
                         "retry": false, "error": harmful });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    for arguments in [
        "job get 1",
        "job get 1 -o json",
        "job ls",
        "job ls -o jsonl",
        "job wait 1",
        "job wait 1 -o json",
        // The error of the job is quoted in an error of the command.
        "job result 1",
    ] {
        let ran = on_terminal(&server, dir.path(), arguments, "");
        assert!(ran.out.contains("31m"), "{arguments}: {:?}", ran.out);
        let found = ran.out.chars().find(|c| ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}'].contains(c));
        assert_eq!(found, None, "{arguments}: {:?}", ran.out);
    }
    let piped = server.run(&["job", "get", "1", "-o", "json"]).success();
    assert!(piped.contains('\u{202e}'), "a program gets it unchanged: {piped}");
    let error = server.run(&["job", "result", "1"]).err;
    assert!(!error.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{error:?}");
    server.stop();
}
