//! The accept loop that all doors share: HTTP/1.1 and HTTP/2 on one port, time-outs and caps everywhere,
//! and a graceful end.

mod connection;
mod crowd;
mod http1;
mod life;
mod patient;
mod under_way;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use crore_api::metrics::Metrics;
use crore_core::Span;
use crore_wire::words::{Period, Size};
use hyper::server::conn::{http1 as h1, http2 as h2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep_until, timeout};

use crate::guard::{Guard, Host, Origin};
use crate::tls::Tls;
use crowd::Crowd;

/// How connections are treated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Names by which callers address this server, besides `localhost` and the addresses of this machine
    /// with the port that it listens on: `jobs.example.com`, or `jobs.example.com:8443`. Requests for any
    /// other name are refused, and so are those that pages of other sites make.
    pub hosts: Vec<Host>,
    /// How many connections there may be in all; more are closed at once.
    pub max_connections: usize,
    /// How many there may be from one address.
    pub max_connections_per_address: usize,
    /// How long a new connection may take to say which protocol it speaks.
    pub first_bytes_time: Period,
    /// How long a connection may take until the head of its next request is whole, also when it is idle
    /// between two.
    pub head_time: Period,
    /// The largest head of a request.
    pub max_head: Size,
    /// How long a peer may not take what is written to it.
    pub write_time: Period,
    /// How often a silent HTTP/2 peer is asked whether it is there.
    pub ping_every: Period,
    /// How long it may take to answer that.
    pub ping_time: Period,
    /// How many requests one HTTP/2 connection may have under way.
    pub max_streams: u32,
    /// After this long a connection is told to come back anew.
    pub max_age: Period,
    /// How long connections may take to end when the server stops.
    pub drain_time: Period,
}

impl Default for Options {
    fn default() -> Self {
        let seconds = |n| Period(Span::from_secs(n));
        Self {
            hosts: Vec::new(),
            max_connections: 20_000,
            max_connections_per_address: 12_000,
            first_bytes_time: seconds(10),
            head_time: seconds(30),
            max_head: Size(16 << 10),
            write_time: seconds(30),
            ping_every: seconds(20),
            ping_time: seconds(10),
            max_streams: 256,
            max_age: seconds(3600),
            drain_time: seconds(30),
        }
    }
}

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
    let _ = timeout(house.options.drain_time.0.into(), phase.closed()).await;
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
    let head = usize::try_from(options.max_head.0).unwrap_or(usize::MAX).max(8 << 10);
    let mut http1 = h1::Builder::new();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from(options.head_time.0))
        .max_buf_size(head);
    let mut http2 = h2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from(options.ping_every.0))
        .keep_alive_timeout(Duration::from(options.ping_time.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_said_in_words_and_typing_mistakes_are_found() {
        let read = serde_json::from_str::<Options>;
        let said = read(r#"{"head-time": "5s", "max-head": "32KiB"}"#).expect("good options");
        let expected = Options {
            head_time: Period(Span::from_secs(5)),
            max_head: Size(32 << 10),
            ..Options::default()
        };
        assert_eq!(said, expected);
        assert!(read(r#"{"head-tme": "5s"}"#).is_err());
        let all = serde_json::to_string(&Options::default()).expect("a text");
        assert_eq!(read(&all).expect("good options"), Options::default());
    }
}
