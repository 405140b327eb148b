//! Client certificates: the name in them, and a verifier that requires one.

use std::sync::Arc;

use crore_core::code::excerpt;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

/// The name of a certificate: its first DNS name or URI.
pub(super) fn name(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = certificate.valid_dns_names().chain(certificate.valid_uri_names());
    names.next().map(|name| excerpt(name).into())
}

/// Wraps a verifier so that it refuses certificates without a name, which the logs could not tell apart.
pub(super) fn require_name(verifier: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(NameRequiringVerifier(verifier))
}

#[derive(Debug)]
struct NameRequiringVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for NameRequiringVerifier {
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.0.verify_client_cert(certificate, between, now)?;
        match name(certificate) {
            Some(_) => Ok(verified),
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
