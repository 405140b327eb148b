//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use crore_api::access::{Certificate, PeerUser, SecureConnection};
use crore_api::budget::ConnectionBytes;
use crore_api::request_log;
use futures_util::future::{Either, ready};
use http::Request;
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::drained_body::DrainedBody;
use super::lifetime::{ConnectionLifetime, EndSignal};
use super::peer_user::peer_user;
use super::timed_stream::{HttpProtocol, TimedStream};
use super::{ListenerShared, Phase, http1};
use crate::grpc;

/// Connection data that every request needs.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    shared: Arc<ListenerShared>,
    peer: SocketAddr,
    local: SocketAddr,
    /// Whether the connection uses TLS.
    is_secure: bool,
    certificate: Option<Certificate>,
    user: Option<PeerUser>,
    bytes: ConnectionBytes,
}

impl ConnectionContext {
    fn new(shared: Arc<ListenerShared>, peer: SocketAddr, local: SocketAddr) -> Self {
        let bytes = ConnectionBytes::new(peer.ip());
        Self { shared, peer, local, is_secure: false, certificate: None, user: None, bytes }
    }
}

/// Serves a connection, over TLS if the listener has it.
pub(super) async fn serve(
    shared: Arc<ListenerShared>,
    stream: TcpStream,
    peer: SocketAddr,
    phase: watch::Receiver<Phase>,
) {
    // A socket without a local address is already closed.
    let Ok(local) = stream.local_addr() else { return };
    let lifetime = ConnectionLifetime::new(phase, shared.options.max_age.into());
    let mut context = ConnectionContext::new(shared, peer, local);
    if let Some(api) = &context.shared.api
        && api.access().may_need_peer_user()
        // Boxed, so that other tasks stay small.
        && Box::pin(api.access().needs_peer_user()).await
    {
        context.user = peer_user(&stream, peer, local);
    }
    let Some(tls) = context.shared.tls.clone() else {
        return serve_stream(context, stream, lifetime).await;
    };
    // Boxed, so that tasks of plain connections stay small.
    Box::pin(async move {
        // A failed handshake closes the connection without a response.
        if let Ok((stream, certificate)) = tls.accept(stream).await {
            context.certificate = certificate;
            context.is_secure = true;
            serve_stream(context, Box::new(stream), lifetime).await;
        }
    })
    .await;
}

/// Serves a stream without TLS between two addresses.
pub(super) async fn serve_plain<S>(
    shared: Arc<ListenerShared>,
    stream: S,
    (peer, local): (SocketAddr, SocketAddr),
    phase: watch::Receiver<Phase>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lifetime = ConnectionLifetime::new(phase, shared.options.max_age.into());
    serve_stream(ConnectionContext::new(shared, peer, local), stream, lifetime).await;
}

/// Serves a connection until it ends, times out, reaches its maximum age, or the server stops.
async fn serve_stream<S>(context: ConnectionContext, stream: S, mut lifetime: ConnectionLifetime)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let options = &context.shared.options;
    let mut io = TimedStream::new(stream, options.write_time.into());
    let protocol = tokio::select! {
        protocol = timeout(options.first_bytes_time.into(), io.detect_protocol()) => protocol,
        _ = lifetime.next_signal() => return,
    };
    match protocol {
        Ok(Ok(HttpProtocol::Http1)) => http1::serve(context, io, lifetime).await,
        Ok(Ok(HttpProtocol::Http2)) => Box::pin(serve_http2(context, io, lifetime)).await,
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_http2<S>(
    context: ConnectionContext,
    io: TimedStream<S>,
    mut lifetime: ConnectionLifetime,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::clone(&context.shared);
    let service = service_fn(move |request: Request<Incoming>| {
        let is_grpc = grpc::is_grpc(request.headers());
        context.handle(request.map(|body| DrainedBody::new(body, is_grpc)))
    });
    let mut connection = shared.http2.serve_connection(TokioIo::new(io), service);
    loop {
        tokio::select! {
            biased;
            // The error of a broken connection cannot be reported to anyone.
            _ = &mut connection => return,
            signal = lifetime.next_signal() => match signal {
                EndSignal::Graceful => Pin::new(&mut connection).graceful_shutdown(),
                // Open streams continue: not every worker reconnects when its stream is closed. Pings detect a dead
                // peer.
                EndSignal::Overdue => {}
                EndSignal::Immediate => return,
            },
        }
    }
}

impl ConnectionContext {
    pub(super) fn shared(&self) -> &Arc<ListenerShared> {
        &self.shared
    }

    /// Handles a request, or refuses it if it is cross-site or addressed to another server.
    pub(super) fn handle<B>(
        &self,
        mut request: Request<B>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let shared = &self.shared;
        if let Err(fault) = shared.guard.check(&request, self.local) {
            shared.metrics.rejected("guard");
            let refused = match grpc::is_grpc(request.headers()) {
                true => grpc::refused(request.headers(), fault),
                false => fault.into_response(),
            };
            request_log::write(request.method(), request.uri().path(), &refused, Duration::ZERO);
            return Either::Right(ready(Ok(refused)));
        }
        request.extensions_mut().insert(ConnectInfo(self.peer));
        if let Some(user) = self.user {
            request.extensions_mut().insert(user);
        }
        request.extensions_mut().insert(self.bytes.clone());
        if self.is_secure {
            request.extensions_mut().insert(SecureConnection);
        }
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        Either::Left(shared.router.clone().call(request))
    }
}
