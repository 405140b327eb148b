//! The budget for bytes in flight: requests and unread responses beyond it are refused.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use crore_api::Scope;
use crore_api::budget::ByteLimits;
use crore_core::Size;
use crore_doors::{Options, grpc, listen};
use futures_util::future::join_all;
use futures_util::stream::{self, Stream, StreamExt};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::access::token;
use crate::grpc::connect;
use crate::server::{BodyEncoding, Server, eventually};

const LONG: Duration = Duration::from_secs(10);
const MIB: usize = 1 << 20;
const PIECE: usize = 64 << 10;

/// A server whose connections may have 4 MiB in flight each.
async fn start() -> Server {
    let in_flight = ByteLimits {
        max_in_flight: Size(32 << 20),
        max_in_flight_per_caller: Size(16 << 20),
        max_in_flight_per_connection: Size(4 << 20),
    };
    let api = crore_api::Options { in_flight, ..crore_api::Options::default() };
    let grpc = grpc::Options { max_health_watchers: 2, ..grpc::Options::default() };
    let options = Options { api, grpc, ..Options::default() };
    Server::start_with(options, listen::Options::default()).await
}

type UnfinishedBody = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// `head`, then this many bytes, and no end.
fn unfinished(head: Vec<u8>, bytes: usize) -> UnfinishedBody {
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let pieces = stream::repeat(piece).take(bytes / PIECE);
    let all = stream::iter([Bytes::from(head)]).chain(pieces);
    let frames = all.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))).chain(stream::pending());
    body_of(frames)
}

fn body_of(
    frames: impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync + 'static,
) -> UnfinishedBody {
    BodyExt::boxed(StreamBody::new(frames))
}

/// An HTTP/2 connection that takes 64 KiB of unread responses.
async fn http2(server: &Server) -> SendRequest<UnfinishedBody> {
    let io = TokioIo::new(server.connect().await);
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .initial_connection_window_size(65_535)
        .initial_stream_window_size(65_535)
        .handshake(io)
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn post(server: &Server, path: &str, kind: &str, body: UnfinishedBody) -> Request<UnfinishedBody> {
    let uri = format!("http://{}{path}", server.address);
    let request = Request::post(uri).header("content-type", kind);
    request.body(body).expect("a request")
}

/// Status, error code, and gRPC status of a refusal.
async fn refusal(response: http::Response<hyper::body::Incoming>) -> (u16, String, Option<String>) {
    let (parts, body) = response.into_parts();
    let body = timeout(LONG, body.collect()).await.expect("in time").expect("whole");
    let trailers = body.trailers().cloned().unwrap_or_default();
    let grpc = trailers.get("grpc-status").or_else(|| parts.headers.get("grpc-status"));
    let grpc = grpc.map(|status| status.to_str().expect("text").to_owned());
    let problem: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let code = problem["code"].as_str().unwrap_or_default().to_owned();
    (parts.status.as_u16(), code, grpc)
}

#[tokio::test]
async fn unfinished_bodies_beyond_the_budget_are_refused() {
    let server = start().await;
    let sender = http2(&server).await;
    let mut held = JoinSet::new();
    // Two bodies of more than 1 MiB fit into three quarters of 4 MiB, and a third does not.
    for _ in 0..4 {
        let request =
            post(&server, "/v1/jobs", "application/json", unfinished(Vec::new(), MIB + PIECE));
        held.spawn(sender.clone().send_request(request));
    }
    let refused = timeout(LONG, held.join_next()).await.expect("in time").expect("one ends");
    let refused = refused.expect("no panic").expect("a response");
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refusal(refused).await, (429, "too-many".to_owned(), None));
    // Small requests of the same connection are served.
    let body = body_of(stream::iter([Ok(Frame::data(Bytes::from_static(br#"{"kind":"small"}"#)))]));
    let small = sender.clone().send_request(post(&server, "/v1/jobs", "application/json", body));
    assert_eq!(small.await.expect("a response").status(), StatusCode::CREATED);
    // Large ones of another connection, too; and of this one as soon as the others are gone.
    let large = json!({"kind": "large", "payload": "x".repeat(MIB - 64)});
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &large).await;
    assert_eq!(pushed.status, StatusCode::CREATED);
    held.shutdown().await;
    eventually(async || {
        let body = Bytes::from(large.to_string());
        let body = body_of(stream::iter([Ok(Frame::data(body))]));
        let pushed =
            sender.clone().send_request(post(&server, "/v1/jobs", "application/json", body));
        pushed.await.expect("a response").status() == StatusCode::CREATED
    })
    .await;
}

#[tokio::test]
async fn unfinished_messages_of_streams_beyond_the_budget_are_refused() {
    let server = start().await;
    let sender = http2(&server).await;
    let mut held = JoinSet::new();
    for _ in 0..4 {
        let mut head = vec![0];
        head.extend((8 * MIB as u32).to_be_bytes());
        let body = unfinished(head, MIB + PIECE);
        let request = post(&server, "/crore.v1.Jobs/PushStream", "application/grpc", body);
        let response = sender.clone().send_request(request);
        held.spawn(async move { refusal(response.await.expect("a response")).await });
    }
    let refused = timeout(LONG, held.join_next()).await.expect("in time").expect("one ends");
    let resource_exhausted = Some("8".to_owned());
    assert_eq!(refused.expect("no panic"), (200, String::new(), resource_exhausted));
}

#[tokio::test]
async fn unread_responses_beyond_the_budget_are_refused() {
    let server = start().await;
    let large = json!({"kind": "large", "payload": "x".repeat(MIB - 64)});
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &large).await;
    let uri =
        format!("http://{}/v1/jobs/{}", server.address, pushed.body["id"].as_str().expect("id"));
    let sender = http2(&server).await;
    let get = || {
        let body = Empty::new().boxed();
        sender.clone().send_request(Request::get(&uri).body(body).expect("a request"))
    };
    let mut unread = Vec::new();
    let refused = loop {
        let response = timeout(LONG, get()).await.expect("in time").expect("a response");
        if response.status() != StatusCode::OK {
            break response.status();
        }
        unread.push(response);
        assert!(unread.len() < 5, "nothing is refused");
    };
    assert_eq!((refused, unread.len()), (StatusCode::TOO_MANY_REQUESTS, 2));
    // They share the window of the connection, so they are read together.
    let read = join_all(unread.into_iter().map(|response| response.into_body().collect()));
    for body in timeout(LONG, read).await.expect("in time") {
        assert!(body.expect("whole").to_bytes().len() > MIB);
    }
    eventually(async || get().await.expect("a response").status() == StatusCode::OK).await;
}

#[tokio::test]
async fn health_takes_short_names_of_known_services_and_few_watchers() {
    let server = start().await;
    token(&server.engine, "ada", &[Scope::Read]).await;
    let mut health = HealthClient::new(connect(&server).await);
    let about = |service: &str| HealthCheckRequest { service: service.to_owned() };
    let long = "x".repeat(2000);
    let status = health.check(about(&long)).await.expect_err("too long");
    assert_eq!(status.code(), tonic::Code::OutOfRange, "{status:?}");
    let status = health.watch(about(&long)).await.expect_err("too long");
    assert_eq!(status.code(), tonic::Code::OutOfRange, "{status:?}");
    let watches =
        (health.watch(about("")).await.expect("one"), health.watch(about("")).await.expect("two"));
    let status = health.watch(about("")).await.expect_err("no permit is left");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    // Listeners to events are counted separately.
    assert!(server.doors.api().acquire_listener().is_ok());
    drop(watches);
    let health = &health;
    eventually(async || health.clone().watch(about("")).await.is_ok()).await;
}
