//! The accept loop that all doors share: HTTP/1.1 and HTTP/2 on one port, time-outs and caps everywhere,
//! and a graceful end.

mod connection;
mod crowd;
mod http1;
mod life;
mod options;
mod patient;
mod under_way;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use crore_api::metrics::Metrics;
use hyper::server::conn::{http1 as h1, http2 as h2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep_until, timeout};

use crate::guard::{Guard, Origin};
use crate::tls::Tls;
use crowd::Crowd;
pub use options::Options;

/// Why nothing can be served any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener is of no use: open another.
    #[error("the listener gave up")]
    Listener(#[source] io::Error),
}

/// Where connections come from, and whether they speak TLS.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
}

impl Listener {
    /// A listener whose connections speak TLS.
    pub const fn secure(socket: TcpListener, tls: Tls) -> Self {
        Self { socket, tls: Some(tls) }
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }
}

/// How often the files of a certificate are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What is served, and where its connections are counted.
#[derive(Debug)]
pub struct Served {
    router: Router,
    metrics: Metrics,
    /// Pages of other sites that may call by gRPC-Web.
    origins: Vec<Origin>,
}

impl Served {
    pub(crate) const fn counted(router: Router, metrics: Metrics, origins: Vec<Origin>) -> Self {
        Self { router, metrics, origins }
    }
}

impl From<Router> for Served {
    /// Connections are counted nowhere that can be read.
    fn from(router: Router) -> Self {
        Self { router, metrics: Metrics::default(), origins: Vec::new() }
    }
}

/// Serves a router on a listener until `shutdown` comes, then takes no new connection, lets requests that
/// are under way end, and gives back when all connections have, or when the time for that is over.
pub async fn serve(
    listener: impl Into<Listener>,
    served: impl Into<Served>,
    options: Options,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let crowd = Crowd::new(options.max_connections, options.max_connections_per_address);
    let phase = watch::Sender::new(Phase::Open);
    let Listener { socket, tls } = listener.into();
    let Served { router, metrics, origins } = served.into();
    let guard = Guard::new(options.hosts.clone(), origins);
    let (http1, http2) = builders(&options);
    let house = Arc::new(House { http1, http2, router, metrics, guard, tls, options });
    let mut shutdown = pin!(shutdown);
    let mut look = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut shutdown => break,
            _ = look.tick(), if house.tls.is_some() => {
                if let Some(tls) = &house.tls {
                    tls.look_again().await;
                }
                continue;
            }
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // That one was gone before it was there.
            Err(error) if is_about_one(&error) => continue,
            Err(error) if is_about_room(&error) => {
                // Connections that end make room for others.
                sleep_until(Instant::now() + PAUSE).await;
                continue;
            }
            Err(error) => return Err(Error::Listener(error)),
        };
        let Some(seat) = crowd.enter(peer.ip()) else {
            house.metrics.turned_away("too-many-connections");
            continue;
        };
        let connected = house.metrics.connected();
        // A connection that cannot be told not to wait is served as well as it can be.
        let _ = stream.set_nodelay(true);
        let (house, phase) = (Arc::clone(&house), phase.subscribe());
        tokio::spawn(async move {
            connection::serve(house, stream, peer, phase).await;
            drop((seat, connected));
        });
    }
    drop(socket);
    phase.send_replace(Phase::Draining);
    let _ = timeout(house.options.drain_time.into(), phase.closed()).await;
    // What is not over by now is dropped.
    phase.send_replace(Phase::Over);
    Ok(())
}

/// How long nothing is accepted when there is no room.
const PAUSE: Duration = Duration::from_millis(100);

/// How far the end of a server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Connections are accepted.
    Open,
    /// Those that are there end when their requests have.
    Draining,
    /// They end.
    Over,
}

/// What all connections share.
struct House {
    http1: h1::Builder,
    http2: h2::Builder<TokioExecutor>,
    router: Router,
    metrics: Metrics,
    guard: Guard,
    tls: Option<Tls>,
    options: Options,
}

fn builders(options: &Options) -> (h1::Builder, h2::Builder<TokioExecutor>) {
    // Less than that is none to the library.
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

fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// There is no memory (`ENOMEM`, `ENOBUFS`), or there are too many open files in the system (`ENFILE`) or
/// in the process (`EMFILE`).
fn is_about_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 105 | 23 | 24))
}
