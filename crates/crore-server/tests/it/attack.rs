//! Attacks on the memory of the built server, all at once: it stays small, and other callers are served.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::binary::{Server, dir, run};

const MIB: usize = 1 << 20;
const MAX_RSS: usize = 512 * MIB;
/// The promise of a release build is 50 ms. A debug build that runs while other tests do only shows that callers are
/// served.
const MAX_P99: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 50 });
/// Time in which calls that must be refused are refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);
/// Time after which calls without a response count as accepted.
const OPEN_AFTER: Duration = Duration::from_secs(2);
/// Minimum number of calls of the honest caller.
const HONEST_CALLS: usize = 300;

type AttackBody = BoxBody<Bytes, Infallible>;

fn body(pieces: impl Stream<Item = Bytes> + Send + Sync + 'static) -> AttackBody {
    BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))))
}

/// The first bytes of a gRPC message of this length, followed by `sent` bytes and no end.
fn unfinished(length: usize, sent: usize) -> AttackBody {
    let mut head = vec![0];
    head.extend(u32::try_from(length).expect("short").to_be_bytes());
    let pieces = stream::repeat(Bytes::from(vec![b'x'; 64 << 10])).take(sent / (64 << 10));
    body(stream::iter([Bytes::from(head)]).chain(pieces).chain(stream::pending()))
}

/// A gRPC message.
fn message(bytes: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend(u32::try_from(bytes.len()).expect("short").to_be_bytes());
    frame.extend(bytes);
    frame.into()
}

/// A field of a protobuf message with text.
fn field(number: u8, text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = text.len();
    while length > 0x7f {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    [&bytes, text].concat()
}

#[derive(Clone)]
struct Attacker {
    address: SocketAddr,
    sender: SendRequest<AttackBody>,
    token: Option<String>,
}

impl Attacker {
    /// A connection that reads at most 64 KiB of all responses.
    async fn connect(address: SocketAddr, token: Option<&str>) -> Self {
        let io = TokioIo::new(TcpStream::connect(address).await.expect("connected"));
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .initial_connection_window_size(65_535)
            .initial_stream_window_size(65_535)
            .handshake(io)
            .await
            .expect("HTTP/2");
        tokio::spawn(connection);
        Self { address, sender, token: token.map(str::to_owned) }
    }

    async fn send(
        mut self,
        method: &str,
        path: &str,
        body: AttackBody,
    ) -> Option<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.sender.ready().await.ok()?;
        self.sender.send_request(request.body(body).expect("a request")).await.ok()
    }
}

/// Calls of an attack that the server accepted.
#[derive(Debug, Default)]
struct AttackResult {
    held: Vec<Response<Incoming>>,
}

impl AttackResult {
    /// Sorts a response; a stream may end with a status in its trailers.
    fn add(&mut self, response: Option<Response<Incoming>>) {
        let Some(mut response) = response else { return };
        let mut is_refused =
            response.status() != StatusCode::OK || response.headers().contains_key("grpc-status");
        // The body of a job stays unread.
        let is_stream =
            response.headers().get("content-type").is_some_and(|kind| kind == "application/grpc");
        while is_stream
            && !is_refused
            && let Some(Some(frame)) = response.frame().now_or_never()
        {
            is_refused = frame.map_or(true, |frame| frame.is_trailers());
        }
        if !is_refused {
            self.held.push(response);
        }
    }
}

/// Makes calls on several connections; calls without a response in time stay open.
async fn attack(
    attackers: &[Attacker],
    calls: usize,
    (method, path, wait): (&'static str, &str, Duration),
    body: impl Fn() -> AttackBody,
) -> (AttackResult, JoinSet<Option<Response<Incoming>>>) {
    let (mut open, mut result) = (JoinSet::new(), AttackResult::default());
    for attacker in attackers.iter().cycle().take(calls) {
        let (attacker, path, body) = (attacker.clone(), path.to_owned(), body());
        open.spawn(async move { attacker.send(method, &path, body).await });
    }
    let until = Instant::now() + wait;
    let mut responses = Vec::new();
    while let Ok(Some(response)) = tokio::time::timeout_at(until, open.join_next()).await {
        responses.push(response.expect("no panic"));
    }
    responses.into_iter().for_each(|response| result.add(response));
    (result, open)
}

async fn attackers(address: SocketAddr, n: usize, token: Option<&str>) -> Vec<Attacker> {
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(Attacker::connect(address, token).await);
    }
    all
}

/// The resident memory of a process, in bytes.
fn rss(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Pushes small jobs one after the other until the attack is over, and returns the 99th percentile of their latency.
async fn honest_p99(address: SocketAddr, token: &str, attack_is_over: &AtomicBool) -> Duration {
    let io = TokioIo::new(TcpStream::connect(address).await.expect("connected"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, AttackBody>(io).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let mut latencies = Vec::new();
    while latencies.len() < HONEST_CALLS || !attack_is_over.load(Ordering::Relaxed) {
        let job = Bytes::from_static(br#"{"kind":"honest"}"#);
        let request = Request::post("/v1/jobs")
            .header("host", address.to_string())
            .header("content-type", "application/json")
            .header("content-length", job.len())
            .header("authorization", format!("Bearer {token}"))
            .body(body(stream::iter([job])))
            .expect("a request");
        sender.ready().await.expect("open");
        let started = Instant::now();
        let response = sender.send_request(request).await.expect("a response");
        assert_eq!(response.status(), StatusCode::CREATED);
        response.into_body().collect().await.expect("whole");
        latencies.push(started.elapsed());
    }
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_on_memory_leave_the_server_small_and_other_callers_served() {
    let dir = dir();
    let create = |name: &str| {
        let arguments = ["token", "create", name, "--preset", "admin", "--data", "crore-data"];
        run(dir.path(), &arguments).success().trim().to_owned()
    };
    let (evil, honest) = (create("evil"), create("honest"));
    let server = Server::start(dir.path(), &[]);
    let address = server.address;
    let large = dir.path().join("large.json");
    let payload = json!("x".repeat(MIB - 64)).to_string();
    std::fs::write(&large, payload).expect("written");
    let file = format!("@{}", large.display());
    let id = server
        .command(&["job", "push", "--quiet", "large", &file])
        .env("CRORE_TOKEN", &evil)
        .output();
    let id = String::from_utf8(id.expect("it runs").stdout).expect("UTF-8");
    let job = format!("/v1/jobs/{}", id.split_whitespace().next().expect("an id"));

    let strangers = attackers(address, 4, None).await;
    let watchers = attackers(address, 4, None).await;
    let long_name = message(&field(1, &vec![b'x'; 4 * MIB - 64]));
    let thieves = attackers(address, 4, Some(&evil)).await;
    let readers = attackers(address, 4, Some(&evil)).await;
    // Hellos with a thousand names of 250 bytes each.
    let names: Vec<u8> =
        (0..1000).flat_map(|n| field(1, format!("{n:0>250}").as_bytes())).collect();
    let hellos = AtomicUsize::new(0);
    let hello = || {
        let id = hellos.fetch_add(1, Ordering::Relaxed).to_string();
        let hello = [names.clone(), field(5, id.as_bytes()), vec![3 << 3, 1]].concat();
        body(stream::iter([message(&field(1, &hello))]).chain(stream::pending()))
    };
    let checks =
        attack(&strangers, 500, ("POST", "/grpc.health.v1.Health/Check", REFUSED_WITHIN), || {
            unfinished(4 * MIB - 8, 4 * MIB - (64 << 10))
        });
    let names =
        attack(&strangers, 500, ("POST", "/grpc.health.v1.Health/Watch", REFUSED_WITHIN), || {
            body(stream::iter([long_name.clone()]))
        });
    let watches =
        attack(&watchers, 1000, ("POST", "/grpc.health.v1.Health/Watch", OPEN_AFTER), || {
            body(stream::iter([message(&[])]))
        });
    let pushes = attack(&thieves, 100, ("POST", "/crore.v1.Jobs/PushStream", OPEN_AFTER), || {
        unfinished(12 * MIB - 8, 12 * MIB - (64 << 10))
    });
    let reads = attack(&readers, 700, ("GET", &job, OPEN_AFTER), || body(stream::empty()));
    let workers = attack(&readers, 250, ("POST", "/crore.v1.Work/Stream", OPEN_AFTER), hello);
    let is_over = Arc::new(AtomicBool::new(false));
    let attacks = async {
        let attacked = tokio::join!(checks, names, watches, pushes, reads, workers);
        is_over.store(true, Ordering::Relaxed);
        attacked
    };
    // A thread and a runtime of its own: it does not wait for the attackers' tasks.
    let honest_caller = tokio::task::spawn_blocking({
        let (honest, is_over) = (honest.clone(), Arc::clone(&is_over));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        move || runtime.expect("a runtime").block_on(honest_p99(address, &honest, &is_over))
    });
    let (attacked, p99) = tokio::join!(attacks, honest_caller);
    let p99 = p99.expect("no panic");
    let (checks, names, watches, ..) = &attacked;

    let rss = rss(server.pid());
    println!("at most {} MiB resident, p99 {p99:?}", rss / MIB);
    assert!(rss < MAX_RSS, "{} MiB", rss / MIB);
    assert!(p99 < MAX_P99, "{p99:?}");
    // How many of the others are refused depends on how fast the attackers send; the tests of the doors count them.
    for (name, (result, open)) in [("check", checks), ("long name", names)] {
        assert_eq!((result.held.len(), open.len()), (0, 0), "{name}: every call is refused");
    }
    let watching = watches.0.held.len();
    assert!(watching <= 256, "{watching} watchers without a token");
    // Listeners to events are counted separately.
    let reader = Attacker::connect(address, Some(&honest)).await;
    let events = reader.send("GET", "/v1/events", body(stream::empty())).await;
    assert_eq!(events.expect("a response").status(), StatusCode::OK);
    drop(attacked);
}
