//! Commands over https.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::binary::{dir, run};

/// Serves one https call with the name of a server; returns its address and certificate.
fn answers_once() -> (SocketAddr, String) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut tcp, _) = listener.accept().expect("a caller");
        let mut tls = ServerConnection::new(Arc::new(config)).expect("a connection");
        let mut stream = Stream::new(&mut tls, &mut tcp);
        let mut head = [0; 4096];
        // A caller that does not trust the certificate disconnects.
        if stream.read(&mut head).is_ok() {
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"name\":\"crore\"}";
            stream.write_all(answer.as_bytes()).expect("written");
        }
    });
    (address, cert.pem())
}

#[test]
fn a_server_with_a_trusted_certificate_is_accepted() {
    let dir = dir();
    let (address, certificate) = answers_once();
    std::fs::write(dir.path().join("ca.pem"), certificate).expect("written");
    let url = format!("https://{address}");
    let info =
        run(dir.path(), &["info", "--server", &url, "--ca", "ca.pem", "-o", "jsonl"]).success();
    assert_eq!(info, "{\"name\":\"crore\"}\n");
}

#[test]
fn a_server_with_an_untrusted_certificate_is_refused() {
    let dir = dir();
    let (_, other) = answers_once();
    std::fs::write(dir.path().join("ca.pem"), other).expect("written");
    let (address, _) = answers_once();
    let ran =
        run(dir.path(), &["info", "--server", &format!("https://{address}"), "--ca", "ca.pem"]);
    assert_eq!(ran.code, Some(5));
    assert!(ran.err.contains("is not trusted") && ran.err.contains("--ca FILE"), "{}", ran.err);
    assert!(!ran.err.contains("running there"), "a server is running there: {}", ran.err);
}
