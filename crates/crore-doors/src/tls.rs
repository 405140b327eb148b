//! TLS 1.2 and 1.3, with certificates that may be replaced while the server runs, and perhaps with
//! certificates of clients.

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
    /// TLS on every listener, if there is a certificate.
    pub struct Options: Eq = "tls" {
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

/// Why TLS cannot be had: which setting is wrong, and how.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One setting needs another.
    #[error("`tls.{setting}` means nothing without `tls.{needs}`")]
    Alone {
        /// The setting.
        setting: &'static str,
        /// What is missing.
        needs: &'static str,
    },
    /// A file cannot be read.
    #[error("`tls.{setting}`: cannot read `{path}`")]
    Unreadable {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What stands in a file is of no use.
    #[error("`tls.{setting}`: `{path}` {why}")]
    Unusable {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// TLS for a listener. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    now: RwLock<Arc<ServerConfig>>,
    /// What the files held when they were last looked at, whether it was of use or not.
    seen: Mutex<Digest>,
}

impl Tls {
    /// TLS as the options say; `None`: they name no certificate.
    pub fn load(options: &Options) -> Result<Option<Self>, Error> {
        let Some(files) = Files::read(options)? else { return Ok(None) };
        let now = RwLock::new(Arc::new(config(options, &files)?));
        let seen = Mutex::new(files.digest());
        Ok(Some(Self(Arc::new(Shared { options: options.clone(), now, seen }))))
    }

    /// Reads the files again, if they hold something else than before, and says whether they did. New
    /// connections use what they hold now; if that is of no use, what was used before stays.
    pub fn reload(&self) -> Result<bool, Error> {
        let Some(files) = Files::read(&self.0.options)? else { return Ok(false) };
        let digest = files.digest();
        {
            let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == digest {
                return Ok(false);
            }
            *seen = digest;
        }
        let config = Arc::new(config(&self.0.options, &files)?);
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(true)
    }

    /// The same, for a loop or an operator: what becomes of it is written into the log.
    pub async fn look_again(&self) {
        let tls = self.clone();
        match tokio::task::spawn_blocking(move || tls.reload()).await {
            Ok(Ok(true)) => tracing::info!("the files of the certificate changed, and are in use"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    error,
                    "the files of the certificate are of no use; the old ones stay"
                );
            }
            Err(error) => {
                tracing::error!(%error, "the files of the certificate cannot be looked at");
            }
        }
    }

    /// How well a port with it is protected.
    pub fn protection(&self) -> Protection {
        match self.0.options.client_ca {
            Some(_) => Protection::ClientCertificates,
            None => Protection::Tls,
        }
    }

    /// Agrees with a client on how to speak, and hears who it is.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<Certificate>)> {
        let config = Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner));
        let accepting = TlsAcceptor::from(config).accept(stream);
        let stream = timeout(self.0.options.handshake_time.into(), accepting).await??;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        let name = shown.and_then(client::name).map(Certificate);
        Ok((stream, name))
    }
}

/// What both ends agree on: no version before 1.2, and no protocol but ours.
fn config(options: &Options, files: &Files) -> Result<ServerConfig, Error> {
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
            builder.with_client_cert_verifier(client::named(verifier))
        }
    };
    let mut config = builder
        .with_single_cert(files.chain()?, files.key()?)
        .map_err(|error| files.unusable("key", error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
