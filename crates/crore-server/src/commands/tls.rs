//! TLS client connections.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// TLS settings for one server.
#[derive(Clone)]
pub(crate) struct ClientTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Settings for calls to this host. The CAs in the file are trusted instead of those that the system trusts.
    pub(crate) fn new(host: &str, trusted: Option<&Path>) -> anyhow::Result<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error| anyhow!(error))?;
        let roots = match trusted {
            Some(path) => from_file(path)?,
            None => from_system()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: Arc::new(config).into(), name })
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

fn from_file(path: &Path) -> anyhow::Result<RootCertStore> {
    let shown = path.display();
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(path);
    for certificate in read.with_context(|| format!("cannot read `{shown}`"))? {
        let certificate =
            certificate.with_context(|| format!("`{shown}` is not a PEM certificate"))?;
        roots.add(certificate).with_context(|| format!("invalid certificate in `{shown}`"))?;
    }
    if roots.is_empty() {
        bail!("no certificate in `{shown}`");
    }
    Ok(roots)
}

fn from_system() -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Unreadable certificates are skipped.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        bail!("this system has no trusted CA certificates; set `--ca FILE`");
    }
    Ok(roots)
}

/// Why a server's certificate is not trusted and what to do about it; `None` for other errors.
pub(crate) fn untrusted_reason(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(why) = inner else { return None };
    Some(match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host name".to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is a CA certificate; create it with `basicConstraints=critical,CA:FALSE`".to_owned()
        }
        _ => "it is not signed by a trusted CA; set `--ca FILE` to trust another one".to_owned(),
    })
}
