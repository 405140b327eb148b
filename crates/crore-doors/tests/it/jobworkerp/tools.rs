//! The README's calls by third-party clients: grpcio in Python with reflection, and `buf curl`.

use std::path::{Path, PathBuf};

use crore::Engine;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore_core::machine::Outcome;
use crore_core::payload::Encoding;
use crore_core::{Payload, Span};
use crore_testkit::{Npm, Pypi, or_skip};
use serde_json::{Value, json};
use tokio::process::Command;

use super::name;
use crate::server::Server;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/jobworkerp/readme.py");

/// Acts as the runner: every job of the default channel returns its argument.
async fn run_echo_runner(engine: Engine) {
    let fetch = Fetch {
        handled: Some(Vec::new()),
        wait: Span::from_secs(60),
        ..Fetch::new(name("default"), name("runner"))
    };
    while let Ok(jobs) = engine.fetch(fetch.clone()).await {
        for job in jobs {
            let given = String::from_utf8_lossy(&job.spec.payload.bytes).into_owned();
            let text = format!("{} {given}\n", job.spec.kind);
            let result = Some(Payload::new(Encoding::Bytes, text.into_bytes()));
            engine.finish(Finish::of(&job, Outcome::Done { result })).await.expect("finished");
        }
    }
}

/// The JSON output of a program.
#[track_caller]
fn read(out: &std::process::Output) -> Value {
    let (output, wrong) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{output}{wrong}");
    serde_json::from_str(output.trim()).unwrap_or_else(|error| panic!("{error}: {output}{wrong}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_makes_the_calls_of_the_readme_by_reflection() {
    let Some(programs) = or_skip(Pypi::Grpc.programs()) else { return };
    let server = Server::start().await;
    tokio::spawn(run_echo_runner(server.engine.clone()));
    let mut python = Command::new(programs.join("python"));
    python.arg(README).arg(server.address.to_string()).kill_on_drop(true);
    let output = read(&python.output().await.expect("it runs"));
    let id = |value: &str| json!({"id": {"value": value}});
    assert_eq!((&output["command"], &output["listened to"]), (&id("1"), &id("2")));
    assert_eq!((&output["docker"], &output["periodic"]), (&id("3"), &id("4")));
    assert!(
        output["enqueued"]["id"]["value"].is_string() && output["enqueued"]["result"].is_null()
    );
    let expected = json!({"status": "SUCCESS", "items": ["ListenSleepResultWorker 60\n"]});
    assert_eq!(output["heard"], expected);
    let given = r#"{"Image":"busybox:latest","Cmd":["ls","-al","/"]}"#;
    assert_eq!(output["direct"], json!([format!("docker {given}\n")]));
    assert_eq!(output["jobs"], json!(["4"]));
    assert_eq!(output["workers"], json!(["periodic", "docker", "ListenSleepResultWorker", "ls"]));
    assert_eq!(output["results"], json!(["ListenSleepResultWorker"]));
    let worker = &output["worker"];
    assert_eq!(
        (&worker["operation"], &worker["response_type"]),
        (&json!("sleep"), &json!("LISTEN_AFTER"))
    );
    let policy = json!({
        "type": "EXPONENTIAL", "interval": 1000, "max_interval": 60000, "max_retry": 3, "basis": 2.0,
    });
    assert_eq!(worker["retry_policy"], policy);
}

/// Calls with `buf curl`, which uses reflection.
async fn curl(home: &Path, cache: PathBuf, server: &Server, call: &str, body: Value) -> Value {
    let mut buf = Command::new(home.join("node_modules/.bin/buf"));
    buf.args(["curl", "--protocol", "grpc", "--http2-prior-knowledge", "-d", &body.to_string()]);
    buf.arg(format!("http://{}/jobworkerp.service.{call}", server.address));
    buf.env("BUF_CACHE_DIR", cache).kill_on_drop(true);
    read(&buf.output().await.expect("it runs"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buf_curl_creates_a_worker_enqueues_and_listens() {
    let Some(home) = or_skip(Npm::Connect.home()) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    tokio::spawn(run_echo_runner(server.engine.clone()));
    let cache = dir.path().join("cache");
    let call =
        async |name: &str, body: Value| curl(&home, cache.clone(), &server, name, body).await;
    let worker = json!({
        "name": "EchoWorker", "type": "COMMAND", "operation": "echo", "response_type": "LISTEN_AFTER",
        "store_success": true, "retry_policy": {"type": "LINEAR", "interval": 500, "max_retry": 2, "basis": 1.5},
    });
    let created = call("WorkerService/Create", worker).await;
    assert_eq!(created, json!({"id": {"value": "1"}}));
    let job = json!({"arg": "SGVsbG8=", "worker_id": {"value": "1"}, "timeout": "60000"});
    let job = call("JobService/Enqueue", job).await["id"].clone();
    let listen = json!({"job_id": job, "worker_id": {"value": "1"}, "timeout": "60000"});
    let response = call("JobResultService/Listen", listen).await;
    assert_eq!(
        response["data"]["output"]["items"],
        json!(["RWNob1dvcmtlciBIZWxsbwo="]),
        "{response}"
    );
    assert_eq!(response["data"]["jobId"], job);
    let found = call("JobResultService/FindListByJobId", json!({"job_id": job})).await;
    assert_eq!(found["data"]["workerName"], "EchoWorker");
}
