//! A server in memory, without sockets, threads and real time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
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

use crate::handlers;

/// Longest wait for a response, in the paused time of the runtime. Streams of events never end.
const RESPONSE_TIME: Duration = Duration::from_secs(120);

/// Address of the caller, and of the server.
pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);
pub(crate) const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7077);

/// A server with an empty store.
pub(crate) struct MemoryServer {
    pub(crate) doors: Doors,
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
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O");
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
        self.run(async {
            let response = timeout(RESPONSE_TIME, self.router.clone().oneshot(request)).await;
            let response = match response {
                Ok(response) => Some(complete(response.unwrap_or_else(|never| match never {})).await),
                Err(_) => None,
            };
            self.clock.advance(Span::from_secs(1));
            let _ = self.doors.engine().upkeep().run_once().await;
            response
        })
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
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
