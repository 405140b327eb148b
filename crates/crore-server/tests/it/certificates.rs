//! Certificates of the server, of its clients, and of push workers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use crore_testkit::eventually;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream,
};
use serde_json::json;

use crate::binary::{LONG, Server, dir, run};

struct Authority(CertifiedIssuer<'static, KeyPair>);

struct SignedCertificate {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("good");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn sign(&self, name: &str) -> SignedCertificate {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("good");
        let signed = params.signed_by(&key, &self.0).expect("a certificate");
        SignedCertificate { certificate: signed.der().clone(), pem: signed.pem(), key }
    }
}

impl SignedCertificate {
    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.serialize_der().into())
    }

    fn write(&self, dir: &Path) {
        write(dir, "cert.pem", &self.pem);
        write(dir, "key.pem", &self.key.serialize_pem());
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("written");
}

const FILES: [&str; 4] = ["--set", "tls.certificate=cert.pem", "--set", "tls.key=key.pem"];

#[test]
fn sighup_reloads_certificates_and_keeps_the_old_one_if_the_new_is_invalid() {
    let dir = dir();
    let (first, second) = (Authority::new(), Authority::new());
    write(dir.path(), "first.pem", &first.0.pem());
    write(dir.path(), "second.pem", &second.0.pem());
    first.sign("127.0.0.1").write(dir.path());
    let server = Server::start(dir.path(), &FILES);
    let url = format!("https://{}", server.address);
    let trusts =
        |ca: &str| run(dir.path(), &["info", "--server", &url, "--ca", ca]).code == Some(0);
    assert!(trusts("first.pem") && !trusts("second.pem"));

    second.sign("127.0.0.1").write(dir.path());
    server.signal("HUP");
    server.wait_for_log("changed and were reloaded");
    assert!(trusts("second.pem") && !trusts("first.pem"));

    write(dir.path(), "cert.pem", "nothing of use");
    server.signal("HUP");
    server.wait_for_log("keeping the previous ones");
    let wrote = server.log();
    let complaint =
        wrote.lines().find(|line| line.contains("keeping the previous ones")).expect("a line");
    assert!(complaint.contains("ERROR") && complaint.contains("tls.certificate"), "{wrote}");
    assert!(trusts("second.pem"));
    server.stop();
}

#[test]
fn sighup_does_not_stop_a_server() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    server.signal("HUP");
    server.wait_for_log("SIGHUP");
    assert_eq!(server.get("/readyz")["ok"], true);
    server.stop();
}

#[test]
fn a_client_with_a_certificate_has_exactly_the_configured_scopes() {
    let dir = dir();
    let authority = Authority::new();
    write(dir.path(), "ca.pem", &authority.0.pem());
    authority.sign("127.0.0.1").write(dir.path());
    let make = ["token", "create", "ops", "--preset", "admin", "--data", "crore-data"];
    run(dir.path(), &make).success();
    let clients = ["--set", "tls.client-ca=ca.pem", "--set", "access.certificate-scopes=push,work"];
    let server = Server::start(dir.path(), &[&FILES[..], &clients].concat());

    let robot = authority.sign("robot.example");
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![robot.certificate.clone()], robot.key())
        .expect("a certificate");
    let config = Arc::new(config);
    let ask = |method: &str, path: &str, body: &str| {
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let mut tls = ClientConnection::new(Arc::clone(&config), name).expect("a connection");
        let mut tcp = TcpStream::connect(server.address).expect("connected");
        let mut stream = Stream::new(&mut tls, &mut tcp);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status")
    };
    assert_eq!(ask("POST", "/v1/jobs", r#"{"kind": "a"}"#), 201);
    assert_eq!(ask("POST", "/v1/fetch", r#"{"queues": ["a"]}"#), 200);
    assert_eq!(ask("GET", "/v1/jobs", ""), 403);
    assert_eq!(ask("POST", "/v1/backups", r#"{"name": "x"}"#), 403);
    server.stop_soon();
}

/// Serves https as a push worker that accepts every job; returns its port.
fn start_push_worker(signed: &SignedCertificate) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![signed.certificate.clone()], signed.key())
        .expect("a configuration");
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let mut tcp = tcp.expect("a caller");
            let mut tls = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = Stream::new(&mut tls, &mut tcp);
            let mut head = [0; 4096];
            // A caller that does not trust the certificate disconnects.
            if stream.read(&mut head).is_ok() {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer.as_bytes()).expect("written");
            }
        }
    });
    port
}

#[test]
fn a_push_worker_with_a_certificate_of_a_private_authority_is_called_if_that_is_trusted() {
    let authority = Authority::new();
    let port = start_push_worker(&authority.sign("127.0.0.1"));
    for (settings, ends) in [(["--set", "outbound.ca=ca.pem"].as_slice(), true), (&[], false)] {
        let dir = dir();
        write(dir.path(), "ca.pem", &authority.0.pem());
        let server = Server::start(dir.path(), settings);
        let url = format!("https://127.0.0.1:{port}");
        server.post("/worker", &json!({ "name": "w", "max_jobs": 1, "url": url }));
        let job = server.post("/job", &json!({ "name": "mail", "argument": {} }));
        let id = job["job_id"].as_str().expect("an id");
        if ends {
            eventually(LONG, || server.get(&format!("/job/{id}"))["status"] == "done");
        } else {
            server.wait_for_log("failed the TLS handshake");
            assert_ne!(server.get(&format!("/job/{id}"))["status"], "done");
        }
        server.stop_soon();
    }
}

#[test]
fn an_authority_that_cannot_be_read_is_named() {
    let dir = dir();
    write(dir.path(), "empty.pem", "");
    for file in ["empty.pem", "nowhere.pem"] {
        let set = format!("outbound.ca={file}");
        let ran = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--set", &set]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("`outbound.ca`") && ran.err.contains(file), "{}", ran.err);
    }
}
