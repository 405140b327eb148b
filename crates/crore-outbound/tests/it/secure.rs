//! Certificate validation over TLS.

use std::sync::Arc;

use crore_outbound::{CallError, Options, Outbound};
use http::StatusCode;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::calls::{open_options, post};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("good");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// Serves one connection with a certificate for `name`; returns the port.
    async fn serve_once(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> u16 {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("good");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .expect("a certificate and its key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            // A client that does not trust the certificate closes the connection here.
            let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else {
                return;
            };
            let mut question = [0; 4096];
            let _ = stream.read(&mut question).await;
            let answer = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.expect("it listens");
            let _ = stream.shutdown().await;
        });
        port
    }
}

fn outbound(roots: Vec<CertificateDer<'static>>) -> Outbound {
    Outbound::new(Options { roots, ..open_options(&["127.0.0.0/8", "localhost", "::1"]) })
}

#[tokio::test]
async fn a_certificate_of_a_known_authority_is_trusted() {
    let authority = Authority::new();
    for name in ["127.0.0.1", "localhost"] {
        let port = authority.serve_once(name, |_| {}).await;
        let called =
            post(&outbound(vec![authority.root()]), &format!("https://{name}:{port}")).await;
        assert_eq!(called, Ok(StatusCode::ACCEPTED), "{name}");
    }
}

#[tokio::test]
async fn other_certificates_are_not_trusted() {
    let authority = Authority::new();
    let trusting = outbound(vec![authority.root()]);
    let unknown = authority.serve_once("127.0.0.1", |_| {}).await;
    let another = authority.serve_once("worker.example", |_| {}).await;
    let expired = authority.serve_once("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let expired = expired.await;
    for (what, outbound, port) in [
        ("unknown issuer", &outbound(Vec::new()), unknown),
        ("certificate of another host", &trusting, another),
        ("expired certificate", &trusting, expired),
    ] {
        let called = post(outbound, &format!("https://127.0.0.1:{port}")).await;
        let is_refused =
            matches!(&called, Err(CallError::Unreachable(why)) if why.contains("TLS handshake"));
        assert!(is_refused, "{what}: {called:?}");
    }
}
