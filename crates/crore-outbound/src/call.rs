//! A single call: one connection to a checked address, for one request and its response.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Outbound, OutboundDenied, Target};

/// Maximum size of a response head, in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// Why a call has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The target must not be called; nothing was sent.
    #[error("{0}")]
    Denied(OutboundDenied),
    /// The target cannot be reached; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The call failed after connecting; the target may have received the request.
    #[error("{0}")]
    Broken(String),
}

impl CallError {
    /// Finds this error in the source chain of another error.
    pub fn find_in<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        causes.find_map(|cause| cause.downcast_ref())
    }
}

impl From<OutboundDenied> for CallError {
    fn from(denied: OutboundDenied) -> Self {
        Self::Denied(denied)
    }
}

impl Outbound {
    /// Sends a POST request and returns the whole response. The caller sets the total timeout; dropping the
    /// future closes the connection.
    pub async fn post(
        &self,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, CallError> {
        let request = request(target, headers, body)?;
        let addresses = self.addresses(target).await?;
        let stream = self.connect(target, &addresses).await?;
        if target.tls {
            let stream = self.tls_handshake(target, &self.tls, stream).await?;
            self.exchange(target, stream, request).await
        } else {
            self.exchange(target, stream, request).await
        }
    }

    /// Connects to the first address that accepts the connection.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
    ) -> Result<TcpStream, CallError> {
        let mut why = "did not accept the connection in time".to_owned();
        for address in addresses {
            match timeout(self.options.connect_time.into(), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Otherwise a request in two packets may wait for an acknowledgement.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => why = format!("cannot be reached: {error}"),
                Err(_) => {}
            }
        }
        Err(CallError::Unreachable(format!("`{target}` {why}")))
    }

    pub(crate) async fn tls_handshake(
        &self,
        target: &Target,
        tls: &Arc<rustls::ClientConfig>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, CallError> {
        let unreachable = |why: String| CallError::Unreachable(format!("`{target}` {why}"));
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| unreachable("has no valid name for a TLS certificate".to_owned()))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        timeout(self.options.connect_time.into(), connector.connect(name, stream))
            .await
            .map_err(|_| unreachable("did not complete the TLS handshake in time".to_owned()))?
            .map_err(|error| unreachable(format!("failed the TLS handshake: {error}")))
    }

    async fn exchange(
        &self,
        target: &Target,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, CallError> {
        let broken = |why: &dyn std::fmt::Display| CallError::Broken(format!("`{target}` {why}"));
        let invalid_response =
            |error: hyper::Error| broken(&format!("sent no valid response: {error}"));
        let mut client = http1::Builder::new();
        client.max_buf_size(HEAD_BYTES);
        let (mut sender, connection) =
            client.handshake(TokioIo::new(stream)).await.map_err(invalid_response)?;
        let response = async {
            let (head, body) =
                sender.send_request(request).await.map_err(invalid_response)?.into_parts();
            let max_size = self.options.max_answer;
            let bytes = usize::try_from(max_size.0).unwrap_or(usize::MAX);
            let body = Limited::new(body, bytes).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    broken(&format!("sent a response larger than {max_size}"))
                } else {
                    broken(&format!("sent no valid response: {error}"))
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        // The connection is polled here and not in a task, so that it ends with this future.
        let mut connection = std::pin::pin!(connection);
        let mut response = std::pin::pin!(response);
        tokio::select! {
            biased;
            result = &mut response => result,
            _ = &mut connection => response.await,
        }
    }
}

fn request(
    target: &Target,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, CallError> {
    let invalid = |what| CallError::Unreachable(format!("`{target}` has {what} that is invalid"));
    let host = HeaderValue::try_from(target.authority()).map_err(|_| invalid("a host"))?;
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(USER_AGENT, HeaderValue::from_static("crore"));
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().map_err(|_| invalid("a path"))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// TLS configuration that trusts the Mozilla root certificates and `more`.
pub(crate) fn tls_config(more: &[CertificateDer<'static>]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    roots.add_parsable_certificates(more.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS);
    let Ok(config) = config else { unreachable!("ring supports every TLS version of rustls") };
    config.with_root_certificates(roots).with_no_client_auth()
}
