//! A server in memory, without sockets, threads and real time.
//!
//! Tests use a server for one input. libFuzzer uses it for several, and a failure may depend on earlier inputs: the
//! file `fuzz/artifacts/NAME-history` contains all of them, as one input that reproduces the failure.

use std::cell::RefCell;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use crore::Engine;
use crore_core::{Span, Time};
use crore_doors::{Doors, Options};
use crore_store::Memory;
use crore_testkit::FakeClock;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::call::SEPARATOR;
use crate::handlers;

/// Longest wait for a response, in the paused time of the runtime. Streams of events never end.
const RESPONSE_TIME: Duration = Duration::from_secs(120);

/// Address of the caller.
pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);

/// Inputs after which a server is replaced by a new one.
const INPUTS_PER_SERVER: usize = 50;

static REUSES_SERVERS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The server of this thread, and the number of its inputs.
    static SERVER: RefCell<Option<(MemoryServer, usize)>> = const { RefCell::new(None) };
}

/// Lets a server run several inputs.
pub(crate) fn reuse_servers() {
    REUSES_SERVERS.store(true, Ordering::Relaxed);
}

/// Runs an input of a target on a server, which has an empty store unless servers are reused.
pub(crate) fn with_server(target: &str, input: &[u8], run: impl FnOnce(&MemoryServer)) {
    if !REUSES_SERVERS.load(Ordering::Relaxed) {
        return run(&MemoryServer::new());
    }
    SERVER.with_borrow_mut(|slot| {
        let (server, n) = slot
            .take_if(|(_, n)| *n < INPUTS_PER_SERVER)
            .unwrap_or_else(|| (MemoryServer::new(), 0));
        write_history(target, input, n == 0);
        run(&server);
        *slot = Some((server, n + 1));
    });
}

/// Keeps the inputs of a server in a file.
fn write_history(target: &str, input: &[u8], is_new: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/artifacts");
    let mut file = std::fs::OpenOptions::new();
    let file = file.create(true).write(true).truncate(is_new).append(!is_new);
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| file.open(folder.join(format!("{target}-history"))))
        .and_then(|mut file| file.write_all(&[input, SEPARATOR].concat()));
    written.expect("the folder of artifacts is writable");
}

/// A server with an empty store.
pub(crate) struct MemoryServer {
    doors: Doors,
    router: axum::Router,
    clock: Arc<FakeClock>,
    runtime: Runtime,
}

/// A response with its whole body and its trailers.
pub(crate) struct CompleteResponse {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Vec<u8>,
    /// Whether the body has ended, and did not fail.
    pub(crate) is_complete: bool,
}

impl MemoryServer {
    pub(crate) fn new() -> Self {
        let runtime = paused_runtime();
        let clock = Arc::new(FakeClock::at(Time::from_millis(1_790_000_000_000)));
        let store = Arc::new(Memory::new(clock.clone()));
        let mut options = crore::Options::default();
        options.seed = Some(1);
        let engine = Engine::without_thread(store, clock.clone(), options);
        let engine = runtime.block_on(engine).expect("a memory store cannot fail");
        let doors = Doors::new(engine, Options::default());
        doors.api().check_handlers(|handler| handlers::runners().check(handler));
        let router = doors.router();
        Self { doors, router, clock, runtime }
    }

    /// Sends a request; a second later, the server does its upkeep.
    pub(crate) fn call(&self, mut request: Request<Body>) -> Option<CompleteResponse> {
        request.extensions_mut().insert(ConnectInfo(PEER));
        self.runtime.block_on(async {
            let response = timeout(RESPONSE_TIME, self.router.clone().oneshot(request)).await;
            let response = match response {
                Ok(response) => {
                    Some(complete(response.unwrap_or_else(|never| match never {})).await)
                }
                Err(_) => None,
            };
            self.clock.advance(Span::from_secs(1));
            let _ = self.doors.engine().upkeep().run_once().await;
            response
        })
    }
}

/// A runtime whose time passes at once when there is nothing else to do.
pub(crate) fn paused_runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O")
}

async fn complete(response: Response<Body>) -> CompleteResponse {
    let (mut head, mut stream) = response.into_parts();
    let mut body = Vec::new();
    let read = async {
        while let Some(frame) = stream.frame().await {
            let Ok(frame) = frame else { return false };
            match frame.into_data() {
                Ok(data) => body.extend_from_slice(&data),
                Err(frame) => head.headers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        true
    };
    let is_complete = timeout(RESPONSE_TIME, read).await.unwrap_or(false);
    CompleteResponse { head, body, is_complete }
}
