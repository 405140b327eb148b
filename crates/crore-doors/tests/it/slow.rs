//! Slow, silent, greedy and malformed connections, in HTTP/1.1 and HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use crore_core::Span;
use crore_doors::{Options, listen};
use crore_wire::units::Size;
use http::{Method, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{BodyEncoding, Server, eventually};

const SOON: Duration = Duration::from_secs(5);

fn short() -> Span {
    Span::from_millis(100)
}

/// A server with one short timeout.
async fn with_short_timeout(set: impl FnOnce(&mut Options, &mut listen::Options)) -> Server {
    let (mut options, mut listening) = (Options::default(), listen::Options::default());
    set(&mut options, &mut listening);
    Server::start_with(options, listening).await
}

/// Everything received until the server closes the connection, which it must do in time.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset closes the connection too.
    let _ = timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("closed in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn send(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(bytes).await.expect("written");
    stream
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let server = with_short_timeout(|_, listening| listening.first_bytes_time = short()).await;
    for bytes in [&b""[..], b"P", b"PRI * HTTP/2.0"] {
        assert_eq!(until_closed(&mut send(&server, bytes).await).await, "");
    }
}

#[tokio::test]
async fn a_slow_head_and_an_idle_connection_are_closed() {
    let server = with_short_timeout(|_, listening| listening.head_time = short()).await;
    for bytes in [&b"GET / HT"[..], b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: "] {
        until_closed(&mut send(&server, bytes).await).await;
    }
    let mut idle = send(&server, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(until_closed(&mut idle).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_slow_body_times_out() {
    let server = with_short_timeout(|options, _| options.api.body_time = short()).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    for rest in ["content-length: 100\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"] {
        let mut stream = send(&server, format!("{head}{rest}").as_bytes()).await;
        let answer = until_closed(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("too-slow"), "{answer}");
    }
}

#[tokio::test]
async fn a_silent_http2_peer_is_closed() {
    let server = with_short_timeout(|_, listening| {
        (listening.ping_every, listening.ping_time) = (short(), short());
    })
    .await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    until_closed(&mut send(&server, preface).await).await;
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_closed() {
    let server = with_short_timeout(|_, listening| listening.write_time = short()).await;
    let payload = "x".repeat((1 << 20) - 2);
    let pushed = server
        .post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "k", "payload": payload}))
        .await;
    let id = pushed.body["id"].as_str().expect("an id");
    let request = format!("GET /v1/jobs/{id} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(100);
    let mut stream = send(&server, request.as_bytes()).await;
    // The client reads nothing for longer than the write timeout; then it receives what was buffered, and no more.
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_millis(600)).await;
    let answer = until_closed(&mut stream).await;
    assert!(answer.len() < 90 << 20, "{}", answer.len());
}

#[tokio::test]
async fn a_connection_is_closed_at_its_maximum_age() {
    let server = with_short_timeout(|_, listening| {
        (listening.first_bytes_time, listening.max_age) = (short(), short());
    })
    .await;
    let mut stream = send(&server, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn connections_are_limited() {
    let server = with_short_timeout(|_, listening| listening.max_connections = 2).await;
    let one = send(&server, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let two = send(&server, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    for stream in [&one, &two] {
        stream.readable().await.expect("an answer");
    }
    let mut three = server.connect().await;
    assert_eq!(until_closed(&mut three).await, "");
    drop(one);
    eventually(async || {
        let mut stream = server.connect().await;
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn heads_and_bodies_have_a_maximum_size() {
    let server = with_short_timeout(|options, _| options.api.max_body = Size(1000)).await;
    let head = |name: &str, n: usize| {
        let value = "x".repeat(n);
        format!(
            "GET /livez HTTP/1.1\r\nhost: localhost\r\n{name}: {value}\r\nconnection: close\r\n\r\n"
        )
    };
    let mut good = send(&server, head("x-long", 4 << 10).as_bytes()).await;
    assert!(until_closed(&mut good).await.starts_with("HTTP/1.1 200"));
    let mut long = send(&server, head("x-long", 64 << 10).as_bytes()).await;
    assert!(until_closed(&mut long).await.starts_with("HTTP/1.1 431"));
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    assert!(
        until_closed(&mut send(&server, many.as_bytes()).await).await.starts_with("HTTP/1.1 431")
    );

    let large = json!({"kind": "k", "payload": "x".repeat(2000)});
    let answer = server.post(BodyEncoding::Json, "/v1/jobs", &large).await;
    assert_eq!(answer.problem(), (413, "body-too-large", None));
    let chunked = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000));
    let mut stream = send(&server, format!("{chunked}{chunk}").as_bytes()).await;
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 413");
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let server = Server::start().await;
    let post = "POST /v1/jobs HTTP/1.1\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let body = r#"{"kind":"k"}"#;
    for request in [
        format!("{post}host: localhost\r\ncontent-length: 12\r\ncontent-length: 13\r\n\r\n{body}"),
        format!("{post}host: localhost\r\ncontent-length: -1\r\n\r\n{body}"),
        format!(
            "{post}host: localhost\r\ntransfer-encoding: chunked\r\n\r\n11111111111111111\r\n{body}"
        ),
        format!("{post}content-length: 12\r\n\r\n{body}"),
        format!("{post}host: localhost\r\nhost: there\r\ncontent-length: 12\r\n\r\n{body}"),
        format!("{post}host: localhost\r\nx-folded: a\r\n b\r\ncontent-length: 12\r\n\r\n{body}"),
        format!("{post}host: localhost\r\nx bad: a\r\ncontent-length: 12\r\n\r\n{body}"),
        format!("{post}host: localhost\r\nx-nul: a\0b\r\ncontent-length: 12\r\n\r\n{body}"),
        "this is not HTTP at all, but it is long enough\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\0\u{a5}\u{1}\0\0\u{a1}\u{3}\u{3}0123456789abcdef".to_owned(),
    ] {
        let answer = until_closed(&mut send(&server, request.as_bytes()).await).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request:?} {answer:?}");
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/counts").await.body, json!({"counts": []}));
}

/// hyper decides which length counts before the request is visible, and removes the other header. The request cannot
/// be refused here, but the connection is closed after it.
#[tokio::test]
async fn a_body_with_two_lengths_closes_the_connection() {
    let server = Server::start().await;
    let post = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let body = r#"{"kind":"k"}"#;
    let smuggled = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let (length, chunked) = ("content-length: 12\r\n", "transfer-encoding: chunked\r\n");
    for both in [[length, chunked], [chunked, length]] {
        let both = both.concat();
        let request = format!("{post}{both}\r\nc\r\n{body}\r\n0\r\n\r\n{smuggled}");
        let answer = until_closed(&mut send(&server, request.as_bytes()).await).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
}

#[tokio::test]
async fn pipelining_and_expect_continue_work() {
    let server = Server::start().await;
    let one = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut stream = send(&server, format!("{one}{one}{last}").as_bytes()).await;
    assert_eq!(until_closed(&mut stream).await.matches("HTTP/1.1 200").count(), 3);
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n";
    let mut stream =
        send(&server, format!("{head}content-length: 12\r\nconnection: close\r\n\r\n").as_bytes())
            .await;
    let mut start = [0; 25];
    stream.read_exact(&mut start).await.expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(br#"{"kind":"k"}"#).await.expect("written");
    assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 201"));
}

#[tokio::test]
async fn the_same_port_serves_http2() {
    let server = Server::start().await;
    let client: Client<_, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{}/v1/jobs", server.address))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(br#"{"kind":"k"}"#)))
        .expect("a request");
    let response = client.request(request).await.expect("an answer");
    assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 201));
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(&body[..], br#"{"status":"new","id":"1"}"#);
}

#[tokio::test]
async fn shutdown_waits_for_requests_in_flight_up_to_the_drain_time() {
    let mut server = Server::start().await;
    let mut waits = send(&server, &fetch("5s")).await;
    eventually(async || server.engine.deliveries().waiting() == 1).await;
    let stopping = server.stop();
    server.engine.push("q", "x").await.expect("it is stored");
    let mut answer = until_closed(&mut waits).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"jobs\":[{"), "{answer}");
    timeout(SOON, stopping).await.expect("in time").expect("no panic").expect("a success");

    let mut server = with_short_timeout(|_, listening| listening.drain_time = short()).await;
    let mut waits = send(&server, &fetch("60s")).await;
    eventually(async || server.engine.deliveries().waiting() == 1).await;
    timeout(SOON, server.stop()).await.expect("in time").expect("no panic").expect("a success");
    answer = until_closed(&mut waits).await;
    assert_eq!(answer, "");
    eventually(async || server.engine.deliveries().waiting() == 0).await;
}

fn fetch(wait: &str) -> Vec<u8> {
    let body = format!(r#"{{"queues":["q"],"wait":"{wait}"}}"#);
    let n = body.len();
    let head = "POST /v1/fetch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    format!("{head}content-length: {n}\r\n\r\n{body}").into_bytes()
}
