//! A certificate authority for TLS servers in tests.

use std::sync::Arc;

use crore_outbound::{Options, Outbound};
use crore_runner::{NetworkAccess, Urls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::outbound_fixture::options;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("good");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Accepts TLS with a certificate for 127.0.0.1 and offers these protocols.
    pub(crate) fn acceptor(&self, speaks: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("good");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .expect("a certificate and its key");
        config.alpn_protocols = speaks.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Allows calls to loopback, and trusts this authority.
    pub(crate) fn reach(&self) -> NetworkAccess {
        let roots = vec![self.0.der().clone()];
        let outbound = Outbound::new(Options { roots, ..options(&["127.0.0.1/32"]) });
        NetworkAccess::new(outbound, Urls::default())
    }
}
