//! Follow-up jobs that are notified how a job ended, set on the command line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::json;

use crate::binary::{LONG, Server, dir};

/// A Slack server that accepts every message and forwards it to the receiver.
fn slack() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let webhook = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let (sender, messages) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                let header = line.to_lowercase();
                let value = header.strip_prefix("content-length:").map(str::trim);
                length = value.and_then(|value| value.parse().ok()).unwrap_or(length);
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
            (&stream).write_all(answer.as_bytes()).expect("answered");
            if sender.send(String::from_utf8(body).expect("text")).is_err() {
                return;
            }
        }
    });
    (webhook, messages)
}

#[test]
fn slack_is_notified_as_set_on_the_command_line() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory", "--allow-runner", "command"]);
    let (webhook, messages) = slack();
    let settings = format!(r#"{{"webhook": "{webhook}"}}"#);
    let tell = ["handler", "set", "tell", "slack", &settings];
    server.run(&tell).success();
    let handler = |kind: &'static str, program: &str, more: &[&str]| {
        let settings = format!(r#"{{"program": "{program}", "payload": "args"}}"#);
        server.run(&[&["handler", "set", kind, "command", &settings], more].concat())
    };

    let refused = handler("report", "echo", &["--next", "tell"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("use `--on-success tell` instead of `--next tell`"),
        "{refused:?}"
    );
    assert_eq!(server.run(&["handler", "get", "report"]).code, Some(3), "it was not set");

    let both = ["--on-success", "tell", "--on-failure", "tell"];
    let set = handler("report", "echo", &both);
    assert_eq!((set.code, &*set.err), (Some(0), ""), "{set:?}");
    server.run(&["job", "push", "report", r#"["all is well"]"#]).success();
    let message = messages.recv_timeout(LONG).expect("Slack is notified");
    assert!(message.contains("all is well") && message.contains("report"), "{message}");
    handler("report", "false", &[&both[..], &["--attempts", "1"]].concat()).success();
    server.run(&["job", "push", "report", "[]"]).success();
    let message = messages.recv_timeout(LONG).expect("Slack is notified");
    assert!(message.contains("exit code 1"), "{message}");

    // In the other order the handler is set, and the mistake is reported.
    server.run(&["handler", "rm", "tell"]).success();
    handler("early", "echo", &["--next", "tell"]).success();
    let set = server.run(&tell);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(set.err.contains("set `early` again with `--on-success tell`"), "{set:?}");
    // And the job itself fails with that message.
    let id = server.run(&["job", "push", "tell", r#""plain""#]).success();
    let id = id.split_whitespace().last().expect("a number").to_owned();
    let dead = server.run(&["job", "wait", &id, "--for", "20s"]);
    let shown = format!("{}{}", dead.out, dead.err);
    assert!(shown.contains("`--on-success` and `--on-failure`"), "{shown}");
    server.stop();
}

/// The follow-ups of a handler and of a report reach the workers of a kind that has no handler.
#[test]
fn a_follow_up_of_a_kind_without_a_handler_waits_for_external_workers() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory", "--allow-runner", "command"]);
    let settings = r#"{"program": "echo", "args": ["made by a handler"]}"#;
    let set = server.run(&["handler", "set", "make", "command", settings, "--next", "external"]);
    assert!(set.err.contains("wait in the queue `external`"), "{set:?}");
    server.run(&["job", "push", "make"]).success();
    let ask = json!({ "queues": ["external"], "worker": "w", "wait": "30s" });
    let fetch = || server.post("/v1/fetch", &ask)["jobs"][0].clone();
    let job = fetch();
    assert_eq!(
        (&job["kind"], &job["payload_base64"]),
        (&json!("external"), &json!("bWFkZSBieSBhIGhhbmRsZXIK"))
    );

    let next = json!([{ "kind": "external", "payload": "from a report" }]);
    let report = json!({
        "id": job["id"], "delivery": job["delivery"], "outcome": "done", "on_done": next,
    });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    assert_eq!(fetch()["payload"], "from a report");
    server.stop_soon();
}
