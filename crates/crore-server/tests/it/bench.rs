//! `crore bench`: load by every door, and an account of every job.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crore_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{LONG, Ran, Server, call, crore, dir, run};

/// What a run on this server has shown; nothing of it is left there.
#[track_caller]
fn ran_on(server: &Server, arguments: &[&str]) -> Value {
    let arguments = [&["bench", "-o", "json"], arguments].concat();
    let said = server.run(&arguments).good();
    let nothing = server.get("/v1/counts");
    assert_eq!(nothing["counts"].as_array().map(Vec::len), Some(0), "{nothing}");
    serde_json::from_str(&said).expect("one document")
}

/// Every job was pushed, and finished once.
#[track_caller]
fn is_sound(report: &Value, jobs: u64) {
    for name in ["pushed", "finished"] {
        assert_eq!(report[name], jobs, "{name}: {report:#}");
    }
    for name in ["lost", "unfinished", "doubled", "again", "strangers"] {
        assert_eq!(report[name], 0, "{name}: {report:#}");
    }
    assert_eq!(report["ok"], true, "{report:#}");
}

/// What was measured is there, and in order.
#[track_caller]
fn is_spread(spread: &Value) {
    let value = |name: &str| spread[name].as_f64().unwrap_or_default();
    let values = ["p50", "p90", "p99", "p99_9", "max"].map(value);
    assert!(values[0] > 0.0 && values.is_sorted(), "{spread}");
}

#[test]
fn every_door_brings_every_job_to_its_end_and_leaves_nothing() {
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
        let report = ran_on(&server, &[&["--door", door, "--jobs", &jobs_said], more].concat());
        assert_eq!(report["door"], door);
        is_sound(&report, jobs);
        is_spread(&report["latency_us"]["push"]);
        is_spread(&report["latency_us"]["handed"]);
        match door {
            // Their reports are not answered, and that is said.
            "lakh" | "lightjq" => {
                assert!(report["latency_us"]["finished"].is_null(), "{report:#}");
                assert!(report["notes"][0].as_str().is_some_and(|note| note.contains("answer")));
            }
            _ => is_spread(&report["latency_us"]["finished"]),
        }
        assert_eq!(report["server"]["durability"], "D0");
        assert_eq!(report["server"]["own"], false);
        for side in ["server", "client"] {
            assert!(report[side]["rss_bytes"].as_u64() > Some(1_000_000), "{report:#}");
            assert!(report[side]["cpu_us_per_job"].as_f64().is_some(), "{report:#}");
        }
    }
    // Push workers have said that they leave, and streams are closed.
    assert_eq!(server.run(&["worker", "ls", "-o", "jsonl"]).good(), "");
    server.stop();
}

#[test]
fn without_a_server_it_starts_one_of_its_own_and_removes_it() {
    let dir = dir();
    let data = ["--data", "."];
    let arguments = ["bench", "--duration", "300ms", "--rate", "1000", "--batch", "10"];
    let ran = run(dir.path(), &[&arguments[..], &data].concat());
    assert!(ran.err.contains("started a server of its own at http://127.0.0.1:"), "{}", ran.err);
    let said = ran.good();
    for row in ["every job was finished once", "(D2)", "push to finished", "crore bench"] {
        assert!(said.contains(row), "{said}");
    }
    let pushed = said.lines().find_map(|line| line.strip_prefix("pushed")).expect("a row");
    let jobs: u64 = pushed.split_whitespace().next().and_then(|n| n.parse().ok()).expect("jobs");
    assert!((200..=300).contains(&jobs), "a thousand a second for 300 ms: {said}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn where_nobody_works_all_that_was_pushed_is_there_and_is_removed() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    server.run(&["job", "push", "mine"]).good();
    let arguments = ["bench", "-o", "json", "--workers", "0", "--jobs", "1500"];
    let report: Value = serde_json::from_str(&server.run(&arguments).good()).expect("a document");
    assert_eq!((&report["pushed"], &report["lost"]), (&1500.into(), &0.into()), "{report:#}");
    assert_eq!(report["found"]["ready"], 1500);
    assert_eq!(report["latency_us"]["handed"], Value::Null);
    // What others have is left alone.
    let counts = server.get("/v1/counts")["counts"].clone();
    assert_eq!((counts[0]["queue"].as_str(), counts[1].is_null()), (Some("mine"), true));
    server.stop();
}

/// Runs it with three jobs, a quarter of a second apart, while somebody meddles with its queue; that ends badly.
fn meddled_with(meddle: impl FnOnce(&Server, &str)) -> (String, Value) {
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
    let ran = Ran::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    server.stop();
    let report: Value = serde_json::from_str(&ran.out).expect("a document");
    assert_eq!(report["ok"], false, "{report:#}");
    (ran.err, report)
}

#[test]
fn a_job_that_disappears_is_lost_and_said_to_be() {
    let (err, report) = meddled_with(|server, queue| {
        // The second one is not handed out, so that it can be removed.
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
fn a_job_that_comes_a_second_time_is_doubled_and_said_to_be() {
    let (err, report) = meddled_with(|server, queue| {
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
fn whoever_interrupts_it_gets_what_there_is_and_nothing_is_left() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let command = server.command(&["bench", "--rate", "200", "--duration", "10m"]);
    let ran = interrupted(command, Some(server.address));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("it was interrupted") && ran.out.contains("pushed"), "{ran:?}");
    assert_eq!(server.get("/v1/counts")["counts"].as_array().map(Vec::len), Some(0));
    server.stop();
}

#[test]
fn a_server_of_its_own_goes_with_whoever_is_interrupted() {
    let dir = dir();
    let command = crore(dir.path(), &["bench", "--duration", "10m", "--data", "."]);
    let ran = interrupted(command, None);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

/// Runs something until it has pushed, to this server or to that which it says to have started, and interrupts it.
fn interrupted(mut command: Command, server: Option<SocketAddr>) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    let address = server.unwrap_or_else(|| {
        err.read_line(&mut said).expect("text");
        let address = said.trim().rsplit("://").next().and_then(|address| address.parse().ok());
        address.expect("where it is")
    });
    eventually(LONG, || {
        let (_, counts) = call(address, "GET", "/v1/counts", None).expect("an answer");
        counts["counts"].as_array().filter(|counts| !counts.is_empty()).map(drop)
    });
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &pid]).status().expect("kill runs");
    assert!(sent.success());
    err.read_to_string(&mut said).expect("text");
    let mut ran = Ran::of(child.wait_with_output().expect("it ends"));
    ran.err = said;
    ran
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    let dir = dir();
    let refused: [(&[&str], &str); 14] = [
        (&["--producers", "0"], "--producers: at least 1"),
        (&["--in-flight", "0"], "--in-flight: at least 1"),
        (&["--slots", "0"], "--slots: at least 1"),
        (&["--slots", "5", "--door", "lakh"], "--slots: a worker of lakh has none"),
        (&["--batch", "0"], "--batch: at least 1"),
        (&["--batch", "1001"], "--batch: at most 1000"),
        (&["--batch", "2", "--door", "jobber"], "--batch: jobber takes one job a call"),
        (
            &["--batch", "65", "--payload", "1MiB"],
            "--batch: 65 payloads of 1MiB are more than 64MiB",
        ),
        (&["--payload", "10"], "--payload: at least 48B"),
        (&["--payload", "65MiB"], "--payload: at most 64MiB"),
        (&["--rate", "0"], "--rate: `0` is no number"),
        (&["--duration", "0s"], "--duration: it has to be longer"),
        (&["--jobs", "0"], "--jobs: at least 1"),
        (&["--backlog", "5"], "--backlog: not even one batch of 100 fits"),
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
fn what_the_server_refuses_is_said_in_its_words_and_nothing_is_left() {
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
        run(dir.path(), &create).good().trim().to_owned()
    };
    let enough = made("enough", &["push", "work", "read", "operate"]);
    let too_little = made("too-little", &["push", "work", "read"]);
    let server = Server::start(dir.path(), &[]);
    let bench = |token: &str, door: &str| {
        let mut command = server.command(&["bench", "--door", door, "--jobs", "40", "-o", "json"]);
        Ran::of(command.env("CRORE_TOKEN", token).output().expect("it runs"))
    };
    for door in ["grpc", "http", "lakh", "jobber", "lightjq"] {
        let report = serde_json::from_str(&bench(&enough, door).good()).expect("a document");
        is_sound(&report, 40);
    }
    let ran = bench(&too_little, "grpc");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("could not be removed again"), "{}", ran.err);
    server.stop();
}

#[test]
fn a_server_is_spoken_to_by_https_too() {
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
        is_sound(&serde_json::from_str(&ran.good()).expect("a document"), 40);
    }
    server.stop();
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let ran = run(Path::new("/"), &["bench", "--data", "/nowhere/at/all"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--data") && ran.err.contains("/nowhere/at/all"), "{}", ran.err);
}
