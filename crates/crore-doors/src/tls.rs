//! TLS 1.2 and 1.3, with certificates that are reloaded while the server runs, and optional client certificates.

mod client;
mod files;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crore_core::Span;
use crore_core::settings::section;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crore_api::access::{Certificate, Protection};
use files::{Digest, Files};

section! {
    /// TLS on every listener, enabled by setting `certificate` and `key`.
    pub struct Options: Eq = "tls" {
        /// PEM file with the server's certificate chain. When the file changes, new connections use the new
        /// certificate.
        certificate: Option<PathBuf> = none,
        /// PEM file with the private key of the certificate.
        key: Option<PathBuf> = none,
        /// PEM file with the certificate authorities whose client certificates are accepted instead of a token.
        client_ca: Option<PathBuf> = none,
        /// PEM file with certificate revocation lists for those authorities.
        client_revoked: Option<PathBuf> = none,
        /// Require a client certificate: clients without one signed by `client-ca` are refused during the
        /// handshake, even if they have a token.
        client_required: bool = "false",
        /// Timeout for the TLS handshake.
        handshake_time: Span = "5s",
    }
}

/// A TLS setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One setting needs another.
    #[error("`tls.{setting}` requires `tls.{needs}`")]
    MissingSetting {
        /// The setting.
        setting: &'static str,
        /// The setting that is missing.
        needs: &'static str,
    },
    /// A file cannot be read.
    #[error("`tls.{setting}`: cannot read `{path}`")]
    Unreadable {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The contents of a file cannot be used.
    #[error("`tls.{setting}`: `{path}` {why}")]
    Unusable {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// TLS for a listener. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Tls(Arc<TlsShared>);

#[derive(Debug)]
struct TlsShared {
    options: Options,
    current: RwLock<Arc<ServerConfig>>,
    /// Digest of the files when they were last read, usable or not.
    last_digest: Mutex<Digest>,
}

impl Tls {
    /// Loads TLS from the options; `None`: they name no certificate.
    pub fn load(options: &Options) -> Result<Option<Self>, TlsError> {
        let Some(files) = Files::read(options)? else { return Ok(None) };
        files.warn_if_key_is_public();
        let current = RwLock::new(Arc::new(config(options, &files)?));
        let last_digest = Mutex::new(files.digest());
        Ok(Some(Self(Arc::new(TlsShared { options: options.clone(), current, last_digest }))))
    }

    /// Reads the files again and returns whether their contents changed. New connections use the new contents; if
    /// those cannot be used, the previous certificate stays in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let Some(files) = Files::read(&self.0.options)? else { return Ok(false) };
        let digest = files.digest();
        {
            let mut seen = self.0.last_digest.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == digest {
                return Ok(false);
            }
            *seen = digest;
        }
        let config = Arc::new(config(&self.0.options, &files)?);
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(true)
    }

    /// Reloads, and logs the outcome.
    pub async fn reload_and_log(&self) {
        let tls = self.clone();
        match tokio::task::spawn_blocking(move || tls.reload()).await {
            Ok(Ok(true)) => tracing::info!("TLS certificate files changed and were reloaded"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    error,
                    "TLS certificate files cannot be used; keeping the previous ones"
                );
            }
            Err(error) => {
                tracing::error!(%error, "TLS certificate reload failed");
            }
        }
    }

    /// Transport security of a listener with this TLS.
    pub fn protection(&self) -> Protection {
        match self.0.options.client_ca {
            Some(_) => Protection::ClientCertificates,
            None => Protection::Tls,
        }
    }

    /// Performs the handshake, and returns the name in the client's certificate.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<Certificate>)> {
        let config = Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner));
        let accepting = TlsAcceptor::from(config).accept(stream);
        let stream = timeout(self.0.options.handshake_time.into(), accepting).await??;
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        let name = certificate.and_then(client::name).map(Certificate);
        Ok((stream, name))
    }
}

/// TLS 1.2 or later; ALPN `h2` and `http/1.1`.
fn config(options: &Options, files: &Files) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| files.unusable("certificate", error.to_string()))?;
    let builder = match files.client_roots()? {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .with_crls(files.revoked()?);
            let verifier = match options.client_required {
                true => verifier,
                false => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build();
            let verifier =
                verifier.map_err(|error| files.unusable("client-ca", error.to_string()))?;
            builder.with_client_cert_verifier(client::require_name(verifier))
        }
    };
    let mut config = builder
        .with_single_cert(files.chain()?, files.key()?)
        .map_err(|error| files.unusable("key", error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
