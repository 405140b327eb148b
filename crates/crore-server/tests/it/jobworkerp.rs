//! jobworkerp with its own kind of client: grpcio with reflection only, and real commands.

use std::process::Command;

use crore_testkit::{Pypi, eventually, or_skip};
use serde_json::{Value, json};

use crate::binary::{FinishedCommand, LONG, Server, crore, dir};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/jobworkerp/ran.py");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crore-doors/tests/it/jobworkerp");

#[test]
fn the_calls_of_the_readme_run_real_commands() {
    let Some(programs) = or_skip(Pypi::Grpc.programs()) else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &["--allow-runner", "command"]);
    let mut python = Command::new(programs.join("python"));
    python.arg(SCRIPT).arg(server.address.to_string()).env("PYTHONPATH", CLIENT);
    let output = FinishedCommand::of(python.output().expect("it runs")).success();
    let output: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(output["ids"], json!([1, 2, 3, 4, 5]));
    assert_eq!(output["direct"]["status"], "SUCCESS");
    assert!(
        output["direct"]["items"][0].as_str().is_some_and(|text| text.contains("etc\n")),
        "{output}"
    );
    assert_eq!(output["listened"], json!(["SUCCESS", "SUCCESS"]));
    let text = r#"timeout error: "timeout: 1000ms""#;
    assert_eq!(output["late"], json!({ "status": "MAX_RETRY", "items": [text] }));
    assert_eq!(output["texts"], json!([text]));
    let tried: Vec<i64> =
        output["tried"].as_array().expect("a list").iter().filter_map(Value::as_i64).collect();
    assert_eq!(tried.len(), 3, "{tried:?}");
    for (after, wanted) in tried.iter().zip([1000, 2000, 4000]) {
        assert!((wanted..wanted + 500).contains(after), "{tried:?}");
    }
    // The output of `echo` is the input of `wc`.
    let counted = eventually(LONG, || {
        let jobs = server.get("/v1/jobs?kind=count&state=done");
        jobs["jobs"][0]["id"].as_str().map(str::to_owned)
    });
    let counted = server.run(&["job", "result", &counted]).success();
    assert!(counted.trim_end().ends_with("/etc/hostname"), "{counted}");
    let second = |job: &Value| {
        let id = job["id"].as_str().expect("an id");
        let job = server.get(&format!("/v1/jobs/{id}"));
        let at = job["due"].as_str().expect("a time").to_owned();
        at.parse::<jiff::Timestamp>().expect("a time").as_second()
    };
    // The first job was overdue and ran immediately; all later ones keep its phase.
    let next = eventually(LONG, || {
        let jobs = server.get("/v1/jobs?kind=date&state=scheduled");
        jobs["jobs"].as_array()?.first().cloned()
    });
    assert_eq!(second(&next) % 3, 1);
    server.stop_soon();
}

#[test]
fn the_jobworkerp_environment_is_read_and_logged_as_crore_keys() {
    let dir = dir();
    let file = "WORKER_DEFAULT_CONCURRENCY=3\nWORKER_CHANNELS=gpu\nWORKER_CHANNEL_CONCURRENCIES=2\nLOG_LEVEL=debug\n";
    std::fs::write(dir.path().join(".env"), file).expect("written");
    let server = Server::start(dir.path(), &["--jobworkerp-env"]);
    server.wait_for_log("WORKER_DEFAULT_CONCURRENCY=3: channels.default = 3");
    let slots = |queue: &str| {
        eventually(LONG, || {
            let workers = server.get("/v1/workers")["workers"].clone();
            let of = |worker: &&Value| worker["stream"]["queues"][0] == queue;
            workers.as_array()?.iter().find(of)?["stream"]["slots"].as_u64()
        })
    };
    assert_eq!((slots("default"), slots("gpu")), (3, 2));
    server.stop();
    std::fs::write(dir.path().join(".env"), "WORKER_CHANNELS\n").expect("written");
    let output = crore(dir.path(), &["serve", "--jobworkerp-env"]).output().expect("it runs");
    let ran = FinishedCommand::of(output);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("`.env`: line 1"), "{}", ran.err);
}
