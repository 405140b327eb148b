//! gRPC with third-party clients: grpcio in Python, `buf curl`, and connect-web in Node.

use std::path::{Path, PathBuf};
use std::process::Command;

use crore_testkit::{Npm, Pypi, or_skip};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::binary::{FinishedCommand, Server, dir, run};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/grpc");
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crore-wire/proto");

/// The output of a program, as JSON.
#[track_caller]
fn json_output(command: &mut Command) -> Value {
    let out = FinishedCommand::of(command.output().expect("it runs")).success();
    serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// Checks what the Python client reported.
#[track_caller]
fn assert_client_report(seen: &Value, is_known: bool) {
    let services = seen["services"].as_array().expect("services");
    for name in ["crore.v1.Admin", "crore.v1.Jobs", "crore.v1.Work", "grpc.health.v1.Health"] {
        assert!(services.contains(&json!(name)), "{name}: {services:?}");
    }
    let ids: Vec<&str> =
        seen["ids"].as_array().expect("ids").iter().filter_map(Value::as_str).collect();
    assert_eq!(ids.len(), 3, "{seen}");
    let job = &seen["job"];
    assert_eq!((&job["kind"], &job["state"]), (&json!("mail"), &json!("STATE_READY")), "{job}");
    let worked = seen["worked"]["jobs"].as_array().expect("jobs");
    let payloads: Vec<_> = worked.iter().map(|job| job["payload"].clone()).collect();
    assert_eq!(payloads, [r#"{"to": 0}"#, r#"{"to": 1}"#, r#"{"to": 2}"#]);
    assert!(worked.iter().all(|job| job["attempt"] == 1), "{worked:?}");
    assert_eq!(seen["worked"]["verdicts"], json!([1, 1, 1]));
    let ended = &seen["ended"];
    assert_eq!((&ended["ended"], &ended["state"]), (&json!(true), &json!("STATE_DONE")), "{ended}");
    assert_eq!(ended["result"], "InNlbnQi", "the bytes of `sent`");
    assert_eq!(seen["health"]["status"], "SERVING");
    assert_eq!(seen["info"]["durability"], "D2");
    assert_eq!(seen["missing"]["status"], "NOT_FOUND");
    // The status details contain our message, with the error code.
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let details = seen["missing"]["details"].as_str().expect("details");
    assert!(details.contains(&hex("crore.v1.Problem")) && details.contains(&hex("not-found")));
    assert_eq!(seen["unknown"]["status"], "UNIMPLEMENTED");
    match is_known {
        true => assert_eq!(seen["nobody"]["status"], "UNAUTHENTICATED", "{}", seen["nobody"]),
        false => assert_eq!(seen["nobody"], Value::Null),
    }
}

#[test]
fn grpcio_uses_both_reflections_pushes_reads_and_works() {
    let Some(programs) = or_skip(Pypi::Grpc.programs()) else { return };
    for version in ["v1", "v1alpha"] {
        let dir = dir();
        let server = Server::start(dir.path(), &[]);
        let mut python = Command::new(programs.join("python"));
        python.arg(format!("{SCRIPTS}/client.py")).arg(server.address.to_string()).arg(version);
        assert_client_report(&json_output(&mut python), false);
        assert!(!server.log().contains("panicked"), "{}", server.log());
        server.stop();
    }
}

const MAKE: [&str; 7] = ["token", "create", "ops", "--preset", "admin", "--data", "crore-data"];

#[test]
fn grpcio_authenticates_by_token_or_certificate_over_tls() {
    let Some(programs) = or_skip(Pypi::Grpc.programs()) else { return };
    let dir = dir();
    let token = run(dir.path(), &MAKE).success();
    let client = |server: &Server| {
        let mut python = Command::new(programs.join("python"));
        python.arg(format!("{SCRIPTS}/client.py")).arg(server.address.to_string()).arg("v1");
        python
    };
    let server = Server::start(dir.path(), &[]);
    assert_client_report(&json_output(client(&server).arg(token.trim())), true);
    server.stop();

    let key = || KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("good");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let authority = CertifiedIssuer::self_signed(params, key()).expect("a certificate");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let ca = file("ca.pem", &authority.pem());
    let signed = |name: &str| {
        let key = key();
        let params = CertificateParams::new(vec![name.to_owned()]).expect("good");
        let signed = params.signed_by(&key, &authority).expect("a certificate");
        (file(&format!("{name}.key"), &key.serialize_pem()), file(name, &signed.pem()))
    };
    let (own_key, own) = signed("127.0.0.1");
    let files = [("certificate", &own), ("key", &own_key), ("client-ca", &ca)];
    let files = files.map(|(key, path)| format!("tls.{key}={}", path.display()));
    let set: Vec<&str> = files.iter().flat_map(|file| ["--set", file.as_str()]).collect();
    let server = Server::start(dir.path(), &set);
    let (key, certificate) = signed("worker.example");
    // Without a token, the client certificate authenticates the caller.
    assert_client_report(&json_output(client(&server).arg("").args([ca, key, certificate])), false);
    server.stop_soon();
}

/// A program installed by npm.
fn program(home: &Path, name: &str) -> Command {
    Command::new(home.join("node_modules/.bin").join(name))
}

/// Our proto files as one descriptor set, built by `buf`.
fn descriptors(home: &Path, dir: &Path) -> PathBuf {
    let path = dir.join("crore.binpb");
    let built = program(home, "buf").args(["build", PROTO, "-o"]).arg(&path).output();
    FinishedCommand::of(built.expect("it runs")).success();
    path
}

#[test]
fn buf_curl_calls_by_grpc_and_by_grpc_web() {
    let Some(home) = or_skip(Npm::Connect.home()) else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let call = |call: &str, protocol: &str, more: &[&str], body: Value| {
        let mut buf = program(&home, "buf");
        buf.args(["curl", "--protocol", protocol]).args(more);
        buf.args(["-d", &body.to_string(), &format!("{}/{call}", server.url())]);
        // It writes to its own cache.
        json_output(buf.env("BUF_CACHE_DIR", dir.path().join("cache")))
    };
    let push = json!({ "jobs": [{ "kind": "mail", "payload": "e30=" }] });
    let (own, h2) = (["--schema", PROTO], "--http2-prior-knowledge");
    // With reflection over HTTP/2; and with the descriptor set over HTTP/1.1.
    let ways: [(&str, Vec<&str>); 4] = [
        ("grpc", vec![h2]),
        ("grpc", vec![h2, own[0], own[1]]),
        ("grpcweb", vec![h2, own[0], own[1]]),
        ("grpcweb", own.to_vec()),
    ];
    for (n, (protocol, more)) in ways.iter().enumerate() {
        let pushed = call("crore.v1.Jobs/Push", protocol, more, push.clone());
        let id = pushed["jobs"][0]["id"].as_str().expect("an id").to_owned();
        assert_eq!(id, (n + 1).to_string(), "{protocol} {more:?}");
        let job = call("crore.v1.Jobs/Get", protocol, more, json!({ "id": id }));
        assert_eq!((&job["kind"], &job["state"]), (&json!("mail"), &json!("STATE_READY")));
    }
    let mut list = program(&home, "buf");
    list.args(["curl", "--protocol", "grpc", h2, "--list-methods", &server.url()]);
    let listed = FinishedCommand::of(list.output().expect("it runs")).success();
    assert!(listed.lines().any(|line| line == "crore.v1.Work/Stream"), "{listed}");
    server.stop();
}

#[test]
fn connect_web_pushes_works_and_gets_readable_errors() {
    let Some(home) = or_skip(Npm::Connect.home()) else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let mut node = Command::new("node");
    node.arg(format!("{SCRIPTS}/page.mjs")).arg(&home).arg(server.url());
    let seen = json_output(node.arg(descriptors(&home, dir.path())));
    let expected = json!({
        "refused": 1,
        "field": "jobs[1].kind",
        "fetched": [r#"{"to": 1}"#],
        "verdicts": [1],
        "deleted": 1,
        "gone": { "status": "NotFound", "code": "not-found" },
    });
    assert_eq!(seen, expected);
    server.stop();
}
