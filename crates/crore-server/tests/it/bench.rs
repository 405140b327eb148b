//! `crore bench`: load through every door, and the accounting of every job.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{FinishedCommand, LONG, Server, call, crore, dir, run};

/// The report of a run on this server; nothing of the run is left there.
#[track_caller]
fn report_on(server: &Server, arguments: &[&str]) -> Value {
    let arguments = [&["bench", "-o", "json"], arguments].concat();
    let output = server.run(&arguments).success();
    let nothing = server.get("/v1/counts");
    assert_eq!(nothing["counts"].as_array().map(Vec::len), Some(0), "{nothing}");
    serde_json::from_str(&output).expect("one document")
}

/// Every job was pushed, and finished once.
#[track_caller]
fn assert_complete(report: &Value, jobs: u64) {
    for name in ["pushed", "finished"] {
        assert_eq!(report[name], jobs, "{name}: {report:#}");
    }
    for name in ["lost", "unfinished", "doubled", "again", "strangers"] {
        assert_eq!(report[name], 0, "{name}: {report:#}");
    }
    assert_eq!(report["ok"], true, "{report:#}");
}

/// The percentiles are present and ordered.
#[track_caller]
fn assert_percentiles(spread: &Value) {
    let value = |name: &str| spread[name].as_f64().unwrap_or_default();
    let values = ["p50", "p90", "p99", "p99_9", "max"].map(value);
    assert!(values[0] > 0.0 && values.is_sorted(), "{spread}");
}

#[test]
fn every_job_of_every_door_ends_and_nothing_is_left() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory", "--no-runners"]);
    let doors: [(&str, u64, &[&str]); 5] = [
        ("grpc", 2000, &["--producers", "2", "--workers", "3", "--slots", "7", "--batch", "30"]),
        ("http", 500, &["--batch", "20", "--discard"]),
        ("lakh", 500, &["--workers", "2", "--batch", "7"]),
        ("jobber", 100, &["--in-flight", "4", "--slots", "10"]),
        ("lightjq", 50, &["--in-flight", "4", "--payload", "300"]),
    ];
    for (door, jobs, more) in doors {
        let jobs_said = jobs.to_string();
        let report = report_on(&server, &[&["--door", door, "--jobs", &jobs_said], more].concat());
        assert_eq!(report["door"], door);
        assert_complete(&report, jobs);
        assert_percentiles(&report["latency_us"]["push"]);
        assert_percentiles(&report["latency_us"]["handed"]);
        match door {
            // Their reports are not acknowledged, and a note says so.
            "lakh" | "lightjq" => {
                assert!(report["latency_us"]["finished"].is_null(), "{report:#}");
                assert!(
                    report["notes"][0].as_str().is_some_and(|note| note.contains("acknowledge"))
                );
            }
            _ => assert_percentiles(&report["latency_us"]["finished"]),
        }
        assert_eq!(report["server"]["durability"], "D0");
        assert_eq!(report["server"]["own"], false);
        for side in ["server", "client"] {
            assert!(report[side]["rss_bytes"].as_u64() > Some(1_000_000), "{report:#}");
            assert!(report[side]["cpu_us_per_job"].as_f64().is_some(), "{report:#}");
        }
    }
    // Push workers have unregistered, and streams are closed.
    assert_eq!(server.run(&["worker", "ls", "-o", "jsonl"]).success(), "");
    server.stop();
}

#[test]
fn without_a_server_it_starts_a_temporary_one() {
    let dir = dir();
    let data = ["--data", "."];
    let arguments = ["bench", "--duration", "300ms", "--rate", "1000", "--batch", "10"];
    let ran = run(dir.path(), &[&arguments[..], &data].concat());
    assert!(ran.err.contains("started a temporary server at http://127.0.0.1:"), "{}", ran.err);
    let output = ran.success();
    for row in ["every job was finished once", "(D2)", "push to finished", "crore bench"] {
        assert!(output.contains(row), "{output}");
    }
    let pushed = output.lines().find_map(|line| line.strip_prefix("pushed")).expect("a row");
    let jobs: u64 = pushed.split_whitespace().next().and_then(|n| n.parse().ok()).expect("jobs");
    assert!((200..=300).contains(&jobs), "a thousand a second for 300 ms: {output}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn without_workers_pushed_jobs_are_counted_and_deleted() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    server.run(&["job", "push", "mine"]).success();
    let arguments = ["bench", "-o", "json", "--workers", "0", "--jobs", "1500"];
    let report: Value =
        serde_json::from_str(&server.run(&arguments).success()).expect("a document");
    assert_eq!((&report["pushed"], &report["lost"]), (&1500.into(), &0.into()), "{report:#}");
    assert_eq!(report["found"]["ready"], 1500);
    assert_eq!(report["latency_us"]["handed"], Value::Null);
    // Other jobs are not touched.
    let counts = server.get("/v1/counts")["counts"].clone();
    assert_eq!((counts[0]["queue"].as_str(), counts[1].is_null()), (Some("mine"), true));
    server.stop();
}

/// Runs it with three jobs, a quarter of a second apart, while `meddle` changes its queue; the run fails.
fn run_with_interference(meddle: impl FnOnce(&Server, &str)) -> (String, Value) {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let flags = ["--jobs", "3", "--rate", "4", "--batch", "1", "--settle", "500ms"];
    let command = &mut server.command(&[&["bench", "-o", "json"], &flags[..]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let queue = eventually(LONG, || {
        let queues = server.get("/v1/queues");
        queues["queues"][0]["name"].as_str().map(ToOwned::to_owned)
    });
    meddle(&server, &queue);
    let ran = FinishedCommand::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    server.stop();
    let report: Value = serde_json::from_str(&ran.out).expect("a document");
    assert_eq!(report["ok"], false, "{report:#}");
    (ran.err, report)
}

#[test]
fn a_deleted_job_is_reported_as_lost() {
    let (err, report) = run_with_interference(|server, queue| {
        // The second job is not handed out, so that it can be deleted.
        server.post(&format!("/v1/queues/{queue}/pause"), &json!({}));
        let waiting = json!({ "queue": queue, "states": ["ready"] });
        let remove = json!({ "act": "delete", "filter": waiting });
        eventually(LONG, || (server.post("/v1/jobs/act", &remove)["done"] == 1).then_some(()));
        server.post(&format!("/v1/queues/{queue}/resume"), &json!({}));
    });
    assert!(err.contains("1 job LOST"), "{err}");
    assert_eq!((&report["lost"], &report["doubled"]), (&json!(1), &json!(0)), "{report:#}");
}

#[test]
fn a_job_delivered_twice_is_reported_as_a_duplicate() {
    let (err, report) = run_with_interference(|server, queue| {
        let id = eventually(LONG, || {
            let done = server.get(&format!("/v1/jobs?state=done&queue={queue}"));
            done["jobs"][0]["id"].as_str().map(ToOwned::to_owned)
        });
        let payload = server.get(&format!("/v1/jobs/{id}"))["payload"].clone();
        server.post("/v1/jobs", &json!({ "kind": queue, "payload": payload }));
    });
    assert!(err.contains("1 job DOUBLED"), "{err}");
    assert_eq!((&report["lost"], &report["doubled"]), (&json!(0), &json!(1)), "{report:#}");
}

#[test]
fn an_interrupted_run_reports_and_cleans_up() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let command = server.command(&["bench", "--rate", "200", "--duration", "10m"]);
    let ran = interrupted(command, Some(server.address));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("the run was interrupted") && ran.out.contains("pushed"), "{ran:?}");
    assert_eq!(server.get("/v1/counts")["counts"].as_array().map(Vec::len), Some(0));
    server.stop();
}

#[test]
fn an_interrupted_run_stops_its_temporary_server() {
    let dir = dir();
    let command = crore(dir.path(), &["bench", "--duration", "10m", "--data", "."]);
    let ran = interrupted(command, None);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

/// Starts a run, waits until it has pushed, to this server or to its temporary one, and interrupts it.
fn interrupted(mut command: Command, server: Option<SocketAddr>) -> FinishedCommand {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    let mut text = String::new();
    let address = server.unwrap_or_else(|| {
        err.read_line(&mut text).expect("text");
        let address = text.trim().rsplit("://").next().and_then(|address| address.parse().ok());
        address.expect("where it is")
    });
    eventually(LONG, || {
        let (_, counts) = call(address, "GET", "/v1/counts", None).expect("an answer");
        counts["counts"].as_array().filter(|counts| !counts.is_empty()).map(drop)
    });
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &pid]).status().expect("kill runs");
    assert!(sent.success());
    err.read_to_string(&mut text).expect("text");
    let mut ran = FinishedCommand::of(child.wait_with_output().expect("it ends"));
    ran.err = text;
    ran
}

#[test]
fn invalid_flags_are_refused_by_name() {
    let dir = dir();
    let refused: [(&[&str], &str); 14] = [
        (&["--producers", "0"], "--producers: at least 1"),
        (&["--in-flight", "0"], "--in-flight: at least 1"),
        (&["--slots", "0"], "--slots: at least 1"),
        (&["--slots", "5", "--door", "lakh"], "--slots: not supported by lakh"),
        (&["--batch", "0"], "--batch: at least 1"),
        (&["--batch", "1001"], "--batch: at most 1000"),
        (&["--batch", "2", "--door", "jobber"], "--batch: jobber takes one job per call"),
        (
            &["--batch", "65", "--payload", "1MiB"],
            "--batch: 65 payloads of 1MiB are more than 64MiB",
        ),
        (&["--payload", "10"], "--payload: at least 48B"),
        (&["--payload", "65MiB"], "--payload: at most 64MiB"),
        (&["--rate", "0"], "--rate: `0` is not a number"),
        (&["--duration", "0s"], "--duration: cannot be zero"),
        (&["--jobs", "0"], "--jobs: at least 1"),
        (&["--backlog", "5"], "--backlog: smaller than a batch of 100"),
    ];
    for (flags, why) in refused {
        let ran = run(dir.path(), &[&["bench"], flags].concat());
        assert_eq!(ran.code, Some(2), "{flags:?}: {ran:?}");
        assert!(ran.err.contains(why), "{flags:?}: {}", ran.err);
    }
    for flags in [["--door", "smoke"], ["--duration", "soon"], ["--workers", "-1"]] {
        assert_eq!(run(dir.path(), &[&["bench"], &flags[..]].concat()).code, Some(2), "{flags:?}");
    }
    let nobody = ["bench", "--server", "http://127.0.0.1:1"];
    assert_eq!(run(dir.path(), &nobody).code, Some(5));
}

#[test]
fn errors_of_the_server_are_reported_and_nothing_is_left() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory", "--set", "caps.payload=1KiB"]);
    let batches = [("grpc", "2", 2), ("http", "2", 2), ("lakh", "1", 1)];
    let singly = ["http", "jobber", "lightjq"].map(|door| (door, "1", 2));
    for (door, batch, code) in batches.into_iter().chain(singly) {
        let flags = ["bench", "--door", door, "--batch", batch, "--payload", "2KiB"];
        let ran = server.run(&flags);
        assert_eq!(ran.code, Some(code), "{door}: {ran:?}");
        assert!(ran.err.contains("2048"), "{door}: {}", ran.err);
        assert_eq!(ran.out, "");
    }
    assert_eq!(server.get("/v1/counts")["counts"].as_array().map(Vec::len), Some(0));
    server.stop();
}

#[test]
fn a_token_needs_four_scopes_and_without_one_nothing_is_pushed() {
    let dir = dir();
    let made = |name: &str, scopes: &[&str]| {
        let scopes: Vec<_> = scopes.iter().flat_map(|scope| ["--scope", scope]).collect();
        let create = [&["token", "create", name, "--data", "crore-data"], &scopes[..]].concat();
        run(dir.path(), &create).success().trim().to_owned()
    };
    let enough = made("enough", &["push", "work", "read", "operate"]);
    let too_little = made("too-little", &["push", "work", "read"]);
    let server = Server::start(dir.path(), &["--set", "outbound.allow=127.0.0.1"]);
    let bench = |token: &str, door: &str| {
        let mut command = server.command(&["bench", "--door", door, "--jobs", "40", "-o", "json"]);
        FinishedCommand::of(command.env("CRORE_TOKEN", token).output().expect("it runs"))
    };
    for door in ["grpc", "http", "lakh", "jobber", "lightjq"] {
        let report = serde_json::from_str(&bench(&enough, door).success()).expect("a document");
        assert_complete(&report, 40);
    }
    let ran = bench(&too_little, "grpc");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("could not be deleted afterwards"), "{}", ran.err);
    server.stop();
}

#[test]
fn https_servers_are_supported() {
    let dir = dir();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let rcgen::CertifiedKey { cert, signing_key } = made.expect("a certificate");
    std::fs::write(dir.path().join("cert.pem"), cert.pem()).expect("written");
    std::fs::write(dir.path().join("key.pem"), signing_key.serialize_pem()).expect("written");
    let files = ["--memory", "--set", "tls.certificate=cert.pem", "--set", "tls.key=key.pem"];
    let server = Server::start(dir.path(), &files);
    let url = format!("https://{}", server.address);
    for door in ["grpc", "http"] {
        let flags = ["--door", door, "--jobs", "40", "-o", "json", "--ca", "cert.pem"];
        let ran = run(dir.path(), &[&["bench", "--server", &url], &flags[..]].concat());
        assert_complete(&serde_json::from_str(&ran.success()).expect("a document"), 40);
    }
    server.stop();
}

#[test]
fn a_missing_directory_is_named() {
    let ran = run(Path::new("/"), &["bench", "--data", "/nowhere/at/all"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--data") && ran.err.contains("/nowhere/at/all"), "{}", ran.err);
}
