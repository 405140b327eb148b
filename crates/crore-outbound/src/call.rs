//! One call: a connection of its own, to an address that was checked, for one question and its answer.

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

use crate::{Denied, Outbound, Target};

/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// It may not be called; nothing was sent.
    #[error("{0}")]
    Denied(Denied),
    /// Nobody was there; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody was there, and may have heard the question.
    #[error("{0}")]
    Broken(String),
}

impl Failed {
    /// The one of these that is the cause of an error, if there is one.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        causes.find_map(|cause| cause.downcast_ref())
    }
}

impl From<Denied> for Failed {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl Outbound {
    /// Posts a body and gives the answer whole. How long that may take in all is the caller's to say;
    /// to drop the future ends the connection.
    pub async fn post(
        &self,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failed> {
        let request = request(target, headers, body)?;
        let addresses = self.addresses(target).await?;
        let stream = self.connect(target, &addresses).await?;
        if target.tls {
            let stream = self.wrap(target, &self.tls, stream).await?;
            self.exchange(target, stream, request).await
        } else {
            self.exchange(target, stream, request).await
        }
    }

    /// A connection to the first of these that answers.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
    ) -> Result<TcpStream, Failed> {
        let mut why = "was not reached in time".to_owned();
        for address in addresses {
            match timeout(self.options.connect_time.into(), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Without it a question in two packets may wait for an acknowledgement.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => why = format!("cannot be reached: {error}"),
                Err(_) => {}
            }
        }
        Err(Failed::Unreachable(format!("`{target}` {why}")))
    }

    pub(crate) async fn wrap(
        &self,
        target: &Target,
        tls: &Arc<rustls::ClientConfig>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Failed> {
        let unreachable = |why: String| Failed::Unreachable(format!("`{target}` {why}"));
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| unreachable("has no name that a certificate could be for".to_owned()))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        timeout(self.options.connect_time.into(), connector.connect(name, stream))
            .await
            .map_err(|_| unreachable("did not agree on TLS in time".to_owned()))?
            .map_err(|error| unreachable(format!("is not to be trusted: {error}")))
    }

    async fn exchange(
        &self,
        target: &Target,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, Failed> {
        let broken = |why: &dyn std::fmt::Display| Failed::Broken(format!("`{target}` {why}"));
        let hung_up = |error: hyper::Error| broken(&format!("hung up: {error}"));
        let mut client = http1::Builder::new();
        client.max_buf_size(HEAD_BYTES);
        let (mut sender, connection) =
            client.handshake(TokioIo::new(stream)).await.map_err(hung_up)?;
        let asked = async {
            let (head, body) = sender.send_request(request).await.map_err(hung_up)?.into_parts();
            let most = self.options.max_answer;
            let bytes = usize::try_from(most.0).unwrap_or(usize::MAX);
            let body = Limited::new(body, bytes).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    broken(&format!("answered more than {most}"))
                } else {
                    broken(&format!("hung up: {error}"))
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        // The connection is driven here and not by a task, so that it ends with this future.
        let mut connection = std::pin::pin!(connection);
        let mut asked = std::pin::pin!(asked);
        tokio::select! {
            biased;
            answer = &mut asked => answer,
            _ = &mut connection => asked.await,
        }
    }
}

fn request(
    target: &Target,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failed> {
    let wrong = |what| Failed::Unreachable(format!("`{target}` has {what} that cannot be sent"));
    let host = HeaderValue::try_from(target.authority()).map_err(|_| wrong("a host"))?;
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(USER_AGENT, HeaderValue::from_static("crore"));
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().map_err(|_| wrong("a path"))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Who is believed: those whom everybody believes, and these.
pub(crate) fn tls(more: &[CertificateDer<'static>]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    roots.add_parsable_certificates(more.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS);
    let Ok(config) = config else {
        unreachable!("ring knows every version of TLS that rustls does")
    };
    config.with_root_certificates(roots).with_no_client_auth()
}
