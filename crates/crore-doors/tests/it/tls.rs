//! TLS, tested with Python's implementation, which is OpenSSL.

use std::path::PathBuf;
use std::time::Duration;

use crore::Engine;
use crore_api::Scope;
use crore_api::access::Protection;
use crore_api::audit::{self, Audit};
use crore_doors::tls::{self, Tls};
use crore_doors::{Doors, Options, listen};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::access::token;
use crate::raw::{connect, request, send};
use crate::server::Server;

/// A certificate authority, and a directory for what it signs.
pub(crate) struct CertificateAuthority {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The purpose of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificateUse {
    Server,
    Client,
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

impl CertificateAuthority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, crore_testkit::unique_name("authority"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("signed");
        Self { dir: tempfile::tempdir().expect("a directory"), issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Signs a certificate for some names; `change` may alter it first.
    pub(crate) fn sign(
        &self,
        name: &str,
        names: &[&str],
        purpose: CertificateUse,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![match purpose {
            CertificateUse::Server => ExtendedKeyUsagePurpose::ServerAuth,
            CertificateUse::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        change(&mut params);
        let own = key();
        let certificate = params.signed_by(&own, &self.issuer).expect("signed");
        Pair {
            certificate: self.file(&format!("{name}.pem"), &certificate.pem()),
            key: self.file(&format!("{name}.key"), &own.serialize_pem()),
        }
    }

    pub(crate) fn server(&self) -> Pair {
        self.sign("server", &["localhost"], CertificateUse::Server, |_| {})
    }
}

pub(crate) fn options(pair: &Pair) -> tls::Options {
    tls::Options {
        certificate: Some(pair.certificate.clone()),
        key: Some(pair.key.clone()),
        ..tls::Options::default()
    }
}

pub(crate) async fn serve(options: &tls::Options) -> (Server, Tls) {
    let tls = Tls::load(options).expect("valid files").expect("TLS");
    let doors = Doors::new(Engine::memory(), Options::default());
    (Server::open(doors, listen::Options::default(), Some(tls.clone())).await, tls)
}

/// The result of one call by Python.
async fn call_from_python(server: &Server, authority: &CertificateAuthority, more: Value) -> Value {
    calls_from_python(server, authority, &[more]).await.swap_remove(0)
}

/// The results of several calls.
async fn calls_from_python(
    server: &Server,
    authority: &CertificateAuthority,
    more: &[Value],
) -> Vec<Value> {
    let port = server.address.port();
    let ask = |more: &Value| {
        let mut ask =
            json!({"port": port, "ca": authority.pem(), "host": "localhost", "path": "/v1/info"});
        let asked = ask.as_object_mut().expect("an object");
        asked.extend(more.as_object().expect("an object").clone());
        ask
    };
    let requests: Value = more.iter().map(ask).collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls.py");
    let output = Command::new("python3").args([script, &requests.to_string()]).output().await;
    let output = output.expect("python3 is on this machine");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(seen.len(), more.len());
    seen
}

/// A call of this path, with a certificate.
fn call(with: &Pair, path: &str) -> Value {
    let mut call = pair(with);
    call["path"] = json!(path);
    call
}

fn pair(pair: &Pair) -> Value {
    json!({"certificate": pair.certificate, "key": pair.key})
}

#[tokio::test]
async fn only_tls_1_2_and_1_3_are_accepted() {
    let authority = CertificateAuthority::new();
    let (server, _) = serve(&options(&authority.server())).await;
    for (version, spoken) in [("TLSv1_3", "TLSv1.3"), ("TLSv1_2", "TLSv1.2")] {
        let seen = call_from_python(&server, &authority, json!({"version": version})).await;
        assert_eq!((&seen["version"], &seen["status"]), (&json!(spoken), &json!(200)), "{seen}");
    }
    // Protocol versions that Python itself disables by default.
    for version in ["TLSv1_1", "TLSv1"] {
        let old = json!({"version": version, "ciphers": "ALL:@SECLEVEL=0"});
        let seen = call_from_python(&server, &authority, old).await;
        let error = seen["error"].as_str().unwrap_or_default();
        assert!(error.to_lowercase().contains("alert"), "the server refuses it: {seen}");
    }
    // Without forward secrecy, or in CBC mode.
    for ciphers in ["AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA"] {
        let weak = json!({"version": "TLSv1_2", "ciphers": format!("{ciphers}:@SECLEVEL=0")});
        let seen = call_from_python(&server, &authority, weak).await;
        assert!(seen["error"].as_str().is_some_and(|error| error.contains("SSL")), "{seen}");
    }
}

#[tokio::test]
async fn both_protocols_are_offered() {
    let authority = CertificateAuthority::new();
    let (server, _) = serve(&options(&authority.server())).await;
    for (offered, taken) in [(json!(["h2", "http/1.1"]), "h2"), (json!(["http/1.1"]), "http/1.1")] {
        // The request is HTTP/1.1; ALPN is negotiated before it.
        let seen = call_from_python(&server, &authority, json!({"alpn": offered})).await;
        assert_eq!(seen["alpn"], taken, "{seen}");
    }
    let seen = call_from_python(&server, &authority, json!({"alpn": ["smtp"]})).await;
    assert!(seen["error"].is_string() && seen["alpn"].is_null(), "{seen}");
}

#[tokio::test]
async fn both_http_versions_work_over_tls_also_with_slow_responses() {
    let authority = CertificateAuthority::new();
    let (server, _) = serve(&options(&authority.server())).await;
    let id = server.engine.push("q", "x").await.expect("it is stored");
    let ca = authority.file("ca.pem", &authority.pem());
    let port = server.address.port();
    let resolve = format!("localhost:{port}:127.0.0.1");
    let (soon, late) = ("livez", format!("v1/jobs/{id}/result?wait=200ms"));
    let urls = [soon, &late, soon].map(|path| format!("https://localhost:{port}/{path}"));
    for (version, expected) in [
        ("--http2", "2 200 1\n2 202 0\n2 200 0\n"),
        ("--http1.1", "1.1 200 1\n1.1 202 0\n1.1 200 0\n"),
    ] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", version, "--resolve", &resolve, "--cacert"]).arg(&ca);
        curl.args(["-w", "%{http_version} %{response_code} %{num_connects}\n"]);
        for url in &urls {
            curl.args(["-o", "/dev/null", url]);
        }
        let output = curl.output().await.expect("curl is on this machine");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{stderr}");
    }
}

#[tokio::test]
async fn clients_detect_invalid_server_certificates() {
    let authority = CertificateAuthority::new();
    let (server, _) = serve(&options(&authority.server())).await;
    let other = call_from_python(&server, &authority, json!({"host": "other.example"})).await;
    assert!(
        other["error"].as_str().is_some_and(|error| error.contains("VERIFY_FAILED")),
        "{other}"
    );
    let other = CertificateAuthority::new();
    let unknown = call_from_python(&server, &other, json!({})).await;
    assert!(
        unknown["error"].as_str().is_some_and(|error| error.contains("VERIFY_FAILED")),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_client_is_authenticated_only_by_a_valid_certificate() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let names = &["worker.example"];
    let good = authority.sign("good", names, CertificateUse::Client, |_| {});
    let old = authority.sign("old", names, CertificateUse::Client, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let early = authority.sign("early", names, CertificateUse::Client, |params| {
        params.not_before = date_time_ymd(2100, 1, 1);
        params.not_after = date_time_ymd(2101, 1, 1);
    });
    let unnamed = authority.sign("unnamed", &[], CertificateUse::Client, |_| {});
    let for_servers = authority.sign("for-servers", names, CertificateUse::Server, |_| {});
    let foreign = other.sign("foreign", names, CertificateUse::Client, |_| {});
    let serial = SerialNumber::from(4711u64);
    let revoked = authority.sign("revoked", names, CertificateUse::Client, |params| {
        params.serial_number = Some(serial.clone());
    });
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2100, 1, 1),
        crl_number: SerialNumber::from(1u64),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: serial.clone(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&authority.issuer).expect("signed").pem().expect("PEM");

    let file = authority.dir.path().join("audit.jsonl");
    let audited = audit::Options { file: Some(file.clone()), ..audit::Options::default() };
    let audit = Audit::open(&audited).expect("opened");
    let mut tls = options(&authority.server());
    tls.client_ca = Some(authority.file("ca.pem", &authority.pem()));
    tls.client_revoked = Some(authority.file("lists.pem", &list));
    let loaded = Tls::load(&tls).expect("valid files").expect("TLS");
    assert_eq!(loaded.protection(), Protection::ClientCertificates);
    let mut doors = Options::default();
    doors.api.access.certificate_scopes = [Scope::Push, Scope::Admin].into_iter().collect();
    let doors = Doors::audited(Engine::memory(), doors, audit);
    let server = Server::open(doors, listen::Options::default(), Some(loaded)).await;
    token(&server.engine, "closed", &[Scope::Push]).await;

    let asked = [
        (call(&good, "/v1/jobs/1/result"), 404),
        (call(&good, "/v1/tokens"), 200),
        // Outside its scopes.
        (call(&good, "/v1/info"), 403),
        // Without a certificate the client has no scope, but it could send a token.
        (json!({}), 401),
    ];
    let seen = calls_from_python(&server, &authority, &asked.clone().map(|(ask, _)| ask)).await;
    for (seen, (ask, status)) in seen.iter().zip(&asked) {
        assert_eq!(seen["status"], *status, "{ask} {seen}");
    }
    let entry = std::fs::read_to_string(&file).expect("a file");
    assert!(entry.contains(r#""who":"certificate worker.example""#), "{entry}");
    let rows = [
        ("expired", &old),
        ("not valid yet", &early),
        ("without a name", &unnamed),
        ("for servers", &for_servers),
        ("of another authority", &foreign),
        ("revoked", &revoked),
    ];
    for version in ["TLSv1_2", "TLSv1_3"] {
        let ask = rows.map(|(_, bad)| {
            let mut ask = pair(bad);
            ask["version"] = json!(version);
            ask
        });
        let seen = calls_from_python(&server, &authority, &ask).await;
        for (seen, (what, _)) in seen.iter().zip(rows) {
            assert!(seen["error"].is_string() && seen["status"].is_null(), "{what}: {seen}");
        }
    }

    tls.client_required = true;
    let (strict, _) = serve(&tls).await;
    assert_eq!(call_from_python(&strict, &authority, pair(&good)).await["status"], 200);
    let none = call_from_python(&strict, &authority, json!({})).await;
    assert!(none["error"].is_string() && none["status"].is_null(), "{none}");
}

#[tokio::test]
async fn new_connections_use_reloaded_certificates_unless_they_are_invalid() {
    let authority = CertificateAuthority::new();
    let first = authority.server();
    let (server, tls) = serve(&options(&first)).await;
    let before = call_from_python(&server, &authority, json!({})).await;
    assert!(!tls.reload().expect("valid files"), "nothing changed");

    std::fs::write(&first.certificate, "not a certificate").expect("written");
    let error = tls.reload().expect_err("unusable").to_string();
    assert!(error.contains("tls.certificate") && error.contains("server.pem"), "{error}");
    assert_eq!(call_from_python(&server, &authority, json!({})).await["serial"], before["serial"]);

    authority.server();
    assert!(tls.reload().expect("valid files"));
    let after = call_from_python(&server, &authority, json!({})).await;
    assert_eq!(after["status"], 200);
    assert_ne!(after["serial"], before["serial"]);
    // A certificate whose key has not been replaced yet.
    let other = authority.sign("other", &["localhost"], CertificateUse::Server, |_| {});
    std::fs::copy(&other.certificate, &first.certificate).expect("copied");
    let error = tls.reload().expect_err("the key is used").to_string();
    assert!(error.contains("tls.key"), "{error}");
    std::fs::copy(&other.key, &first.key).expect("copied");
    assert!(tls.reload().expect("both are there"));
}

#[test]
fn conflicting_settings_are_reported_with_their_names() {
    let authority = CertificateAuthority::new();
    let server = authority.server();
    let missing = Some(PathBuf::from("/nowhere/at-all.pem"));
    let ca = Some(authority.file("ca.pem", &authority.pem()));
    let none = tls::Options::default();
    let good = options(&server);
    assert!(Tls::load(&none).expect("nothing was requested").is_none());
    let rows = [
        (tls::Options { key: None, ..good.clone() }, "`tls.certificate` requires `tls.key`"),
        (tls::Options { certificate: None, ..good.clone() }, "`tls.key` requires"),
        (
            tls::Options { client_ca: ca.clone(), ..none.clone() },
            "`tls.client-ca` requires `tls.certificate`",
        ),
        (
            tls::Options { client_required: true, ..good.clone() },
            "`tls.client-required` requires `tls.client-ca`",
        ),
        (
            tls::Options { client_revoked: ca, ..good.clone() },
            "`tls.client-revoked` requires `tls.client-ca`",
        ),
        (
            tls::Options { key: missing, ..good.clone() },
            "`tls.key`: cannot read `/nowhere/at-all.pem`",
        ),
        (
            tls::Options { key: good.certificate.clone(), ..good.clone() },
            "holds no unencrypted private key",
        ),
        (tls::Options { certificate: good.key.clone(), ..good.clone() }, "holds no certificate"),
    ];
    for (options, why) in rows {
        let error = Tls::load(&options).expect_err("it does not fit").to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn plain_text_on_a_tls_port_is_not_answered() {
    let authority = CertificateAuthority::new();
    let (server, _) = serve(&options(&authority.server())).await;
    let mut stream = connect(server.address, 1).await;
    let ask = request("GET", "/livez", server.address, &[]);
    stream.write_all(ask.as_bytes()).await.expect("written");
    let mut read = Vec::new();
    // A reset closes the connection too.
    let _ = stream.read_to_end(&mut read).await;
    assert!(!read.starts_with(b"HTTP"), "{read:?}");
}

#[tokio::test]
async fn tls_on_a_plain_port_is_a_bad_request() {
    let server = Server::start().await;
    let hello =
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{7c}\u{3}\u{3}".to_owned() + &"x".repeat(500);
    assert_eq!(send(server.address, 1, &hello).await.status, 400);
    let authority = CertificateAuthority::new();
    let seen = call_from_python(&server, &authority, json!({})).await;
    assert!(seen["error"].is_string(), "{seen}");
}

#[tokio::test]
async fn a_silent_client_is_closed_after_the_handshake_timeout() {
    let authority = CertificateAuthority::new();
    let mut options = options(&authority.server());
    options.handshake_time = "200ms".parse().expect("a period");
    let (server, _) = serve(&options).await;
    for bytes in [&b""[..], &b"\x16\x03\x01\x02\x00\x01"[..]] {
        let start = Instant::now();
        let mut stream = connect(server.address, 1).await;
        stream.write_all(bytes).await.expect("written");
        let mut read = Vec::new();
        let end = timeout(Duration::from_secs(5), stream.read_to_end(&mut read)).await;
        assert!(end.is_ok(), "it is closed");
        assert!(start.elapsed() >= Duration::from_millis(200));
    }
}
