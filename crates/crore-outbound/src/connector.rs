//! Connections for clients that keep them, as the pool of hyper does and gRPC: each goes to an
//! address that was checked a moment before, however its host is written.

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

use crate::call::Failed;
use crate::target::Target;
use crate::{Denied, Outbound};

/// What is spoken on a connection; over TLS both ends agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// HTTP/2 where the other end can, or HTTP/1.1.
    Http,
    /// HTTP/2 alone, as gRPC needs it.
    Http2,
}

/// Makes connections to whom one may call. A client that is built on it cannot reach anybody else: it is
/// asked for every host, also for those that are written as addresses.
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

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = Result<TokioIo<Line>, Failed>> + Send>>;

impl Outbound {
    /// Makes connections for a client that keeps them.
    pub fn connector(&self, speech: Speech) -> Connector {
        let mut tls = rustls::ClientConfig::clone(&self.tls);
        tls.alpn_protocols = match speech {
            Speech::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Speech::Http2 => vec![b"h2".to_vec()],
        };
        Connector { outbound: self.clone(), tls: Arc::new(tls) }
    }
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<Line>, Failed> {
        let target = Target::parse("url", &uri.to_string()).map_err(Denied::from)?;
        let addresses = self.outbound.addresses(&target).await?;
        let stream = self.outbound.connect(&target, &addresses).await?;
        let line = if target.tls {
            Line::Tls(Box::new(self.outbound.wrap(&target, &self.tls, stream).await?))
        } else {
            Line::Plain(stream)
        };
        Ok(TokioIo::new(line))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Line>;
    type Error = Failed;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub enum Line {
    /// Anybody on the way can read it.
    Plain(TcpStream),
    /// Only both ends can.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Line {
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
            Line::Plain($stream) => $call,
            Line::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Line {
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
