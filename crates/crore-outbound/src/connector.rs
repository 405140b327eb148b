//! Connector for clients with connection pools (hyper, gRPC): every new connection goes to an address that was
//! just checked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::call::CallError;
use crate::target::Target;
use crate::{Outbound, OutboundDenied};

/// HTTP versions offered on a connection, by ALPN over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersions {
    /// HTTP/2 if the server supports it, or HTTP/1.1.
    Http,
    /// HTTP/2 only, as gRPC requires.
    Http2,
}

/// Connects to allowed addresses only. A client built on it cannot reach other addresses: every host is checked,
/// including literal addresses.
#[derive(Clone)]
pub struct Connector {
    outbound: Outbound,
    tls: Arc<rustls::ClientConfig>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("outbound", &self.outbound).finish_non_exhaustive()
    }
}

/// A pending connection.
pub type Connecting =
    Pin<Box<dyn Future<Output = Result<TokioIo<OutboundStream>, CallError>> + Send>>;

impl Outbound {
    /// A connector for a client with a connection pool.
    pub fn connector(&self, versions: HttpVersions) -> Connector {
        let mut tls = rustls::ClientConfig::clone(&self.tls);
        tls.alpn_protocols = match versions {
            HttpVersions::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            HttpVersions::Http2 => vec![b"h2".to_vec()],
        };
        Connector { outbound: self.clone(), tls: Arc::new(tls) }
    }
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<OutboundStream>, CallError> {
        let target = Target::parse("url", &uri.to_string()).map_err(OutboundDenied::from)?;
        let addresses = self.outbound.addresses(&target).await?;
        let stream = self.outbound.connect(&target, &addresses).await?;
        let outbound_stream = if target.tls {
            OutboundStream::Tls(Box::new(
                self.outbound.tls_handshake(&target, &self.tls, stream).await?,
            ))
        } else {
            OutboundStream::Plain(stream)
        };
        Ok(TokioIo::new(outbound_stream))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<OutboundStream>;
    type Error = CallError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub enum OutboundStream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for OutboundStream {
    fn connected(&self) -> Connected {
        match self {
            Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                Connected::new().negotiated_h2()
            }
            Self::Plain(_) | Self::Tls(_) => Connected::new(),
        }
    }
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            OutboundStream::Plain($stream) => $call,
            OutboundStream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for OutboundStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for OutboundStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
