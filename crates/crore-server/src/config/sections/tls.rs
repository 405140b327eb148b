use std::path::PathBuf;

use crore_core::Span;
use crore_doors::tls;
use crore_wire::words::Period;

use crore_core::settings::section;

section! {
    /// TLS on every listener, if there is a certificate.
    pub(crate) struct Tls = "tls" {
        /// A PEM file with the server's certificate, and those between it and its authority. When the files
        /// change, new connections are served with the new ones.
        certificate: Option<PathBuf> = none,
        /// A PEM file with the key of the certificate.
        key: Option<PathBuf> = none,
        /// A PEM file with the authorities whose certificates let clients in without a token.
        client_ca: Option<PathBuf> = none,
        /// A PEM file with lists of certificates that those authorities have revoked.
        client_revoked: Option<PathBuf> = none,
        /// Whether a client without such a certificate is sent away before it can show a token.
        client_required: bool = "false",
        /// How long a client may take to agree on how to speak.
        handshake_time: Span = "5s",
    }
}

impl Tls {
    pub(crate) fn options(&self) -> tls::Options {
        tls::Options {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
            client_revoked: self.client_revoked.clone(),
            client_required: self.client_required,
            handshake_time: Period(self.handshake_time),
        }
    }

    /// How addresses begin.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.certificate.is_some() { "https" } else { "http" }
    }
}
