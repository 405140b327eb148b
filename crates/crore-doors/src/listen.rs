//! The accept loop that all doors share: HTTP/1.1 and HTTP/2 on one port, with timeouts, connection limits and
//! graceful shutdown.

mod connection;
mod connection_limit;
mod drained_body;
mod head_scan;
mod http1;
mod in_flight_request;
mod lifetime;
mod options;
mod peer_user;
mod timed_stream;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use crore_api::Api;
use crore_api::metrics::Metrics;
use hyper::server::conn::{http1 as h1, http2 as h2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep_until, timeout};

use crate::guard::{AllowedOrigin, RequestGuard};
use crate::tls::Tls;
use connection_limit::ConnectionLimiter;
pub use options::Options;

/// The server can no longer accept connections.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The listening socket failed; open another.
    #[error("the listening socket failed")]
    Listener(#[source] io::Error),
}

/// A listening socket, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
}

impl Listener {
    /// A listener with TLS.
    pub const fn secure(socket: TcpListener, tls: Tls) -> Self {
        Self { socket, tls: Some(tls) }
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }
}

/// Interval at which the certificate files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// The router to serve, and the metrics that count its connections.
#[derive(Debug)]
pub struct ListenerService {
    router: Router,
    metrics: Metrics,
    /// Origins of other sites that may call by gRPC-Web.
    origins: Vec<AllowedOrigin>,
    /// Decides whether the user of a connection has to be known.
    api: Option<Api>,
}

impl ListenerService {
    pub(crate) fn new(router: Router, api: Api, origins: Vec<AllowedOrigin>) -> Self {
        Self { router, metrics: api.metrics().clone(), origins, api: Some(api) }
    }
}

impl From<Router> for ListenerService {
    /// Connections are not counted, and their users are not known.
    fn from(router: Router) -> Self {
        Self { router, metrics: Metrics::default(), origins: Vec::new(), api: None }
    }
}

/// Serves a router until `shutdown` completes. Then it accepts no more connections, lets requests in flight finish,
/// and returns when all connections are closed or the drain timeout is over.
pub async fn serve(
    listener: impl Into<Listener>,
    served: impl Into<ListenerService>,
    options: Options,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ListenError> {
    let limiter =
        ConnectionLimiter::new(options.max_connections, options.max_connections_per_address);
    let phase = watch::Sender::new(Phase::Open);
    let Listener { socket, tls } = listener.into();
    let shared = Arc::new(ListenerShared::new(served.into(), tls, options));
    let mut shutdown = pin!(shutdown);
    let mut reload = interval_at(Instant::now() + RELOAD_INTERVAL, RELOAD_INTERVAL);
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut shutdown => break,
            _ = reload.tick(), if shared.tls.is_some() => {
                if let Some(tls) = &shared.tls {
                    tls.reload_and_log().await;
                }
                continue;
            }
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // The client has already disconnected.
            Err(error) if is_peer_error(&error) => continue,
            Err(error) if is_out_of_resources(&error) => {
                // Connections that close free descriptors and memory.
                sleep_until(Instant::now() + ACCEPT_PAUSE).await;
                continue;
            }
            Err(error) => return Err(ListenError::Listener(error)),
        };
        let Some(counted) = limiter.try_register(peer.ip()) else {
            shared.metrics.rejected("too-many-connections");
            continue;
        };
        let connected = shared.metrics.connected();
        // A connection without TCP_NODELAY still works.
        let _ = stream.set_nodelay(true);
        let (shared, phase) = (Arc::clone(&shared), phase.subscribe());
        tokio::spawn(async move {
            connection::serve(shared, stream, peer, phase).await;
            drop((counted, connected));
        });
    }
    drop(socket);
    phase.send_replace(Phase::Draining);
    let _ = timeout(shared.options.drain_time.into(), phase.closed()).await;
    // Connections still open after the drain timeout are dropped.
    phase.send_replace(Phase::Closed);
    Ok(())
}

/// Serves one connection over any stream, as [`serve`] does after it has accepted a socket, until the connection ends.
/// The bytes of a client are then read without a socket, as fuzz targets do.
pub async fn serve_connection<S>(
    stream: S,
    served: impl Into<ListenerService>,
    options: Options,
    peer: SocketAddr,
    local: SocketAddr,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::new(ListenerShared::new(served.into(), None, options));
    let phase = watch::Sender::new(Phase::Open);
    connection::serve_plain(shared, stream, (peer, local), phase.subscribe()).await;
}

/// Pause between accepts while the process is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Phase of a server's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// Connections close when their requests are finished.
    Draining,
    /// Connections close now.
    Closed,
}

/// State shared by all connections.
struct ListenerShared {
    http1: h1::Builder,
    http2: h2::Builder<TokioExecutor>,
    router: Router,
    metrics: Metrics,
    guard: RequestGuard,
    tls: Option<Tls>,
    api: Option<Api>,
    options: Options,
}

impl ListenerShared {
    fn new(served: ListenerService, tls: Option<Tls>, options: Options) -> Self {
        let ListenerService { router, metrics, origins, api } = served;
        let guard = RequestGuard::new(options.hosts.clone(), origins);
        let (http1, http2) = builders(&options);
        Self { http1, http2, router, metrics, guard, tls, api, options }
    }
}

fn builders(options: &Options) -> (h1::Builder, h2::Builder<TokioExecutor>) {
    // hyper panics below 8 KiB.
    let head = options.max_head.bytes().max(8 << 10);
    let mut http1 = h1::Builder::new();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from(options.head_time))
        .max_buf_size(head);
    let mut http2 = h2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from(options.ping_every))
        .keep_alive_timeout(Duration::from(options.ping_time))
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_concurrent_streams(options.max_streams);
    (http1, http2)
}

fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Out of memory (`ENOMEM`, `ENOBUFS`) or of file descriptors, in the system (`ENFILE`) or in the process (`EMFILE`).
fn is_out_of_resources(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 105 | 23 | 24))
}
