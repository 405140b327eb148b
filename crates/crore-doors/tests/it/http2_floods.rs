//! HTTP/2 floods: the server closes the connection, and serves other clients meanwhile.

use std::time::Duration;

use crore_core::Span;
use crore_doors::listen;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{BodyEncoding, Server};

const SOON: Duration = Duration::from_secs(10);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// HTTP/2 error `ENHANCE_YOUR_CALM`.
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A request that adds nothing to the HPACK table.
fn request(method: &str) -> Vec<u8> {
    let field = |index: u8, value: &str| {
        let length = u8::try_from(value.len()).expect("short");
        [&[index, length], value.as_bytes()].concat()
    };
    // Index 6: `:scheme: http`.
    [field(2, method), vec![0x86], field(4, "/livez"), field(1, "localhost")].concat()
}

/// Writes until the peer accepts no more, and returns everything it has sent.
async fn flood(stream: TcpStream, first: &[u8], mut next: impl FnMut() -> Vec<u8>) -> Vec<u8> {
    let (mut from, mut to) = stream.into_split();
    to.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), first].concat()).await.expect("taken");
    let received = tokio::spawn(async move {
        let mut received = Vec::new();
        // A reset ends the connection too.
        let _ = from.read_to_end(&mut received).await;
        received
    });
    let written = timeout(SOON, async { while to.write_all(&next()).await.is_ok() {} }).await;
    written.expect("disconnected in time");
    timeout(SOON, received).await.expect("closed in time").expect("no panic")
}

/// The error codes of all GOAWAY frames.
fn goaway_errors(mut received: &[u8]) -> Vec<u32> {
    let mut errors = Vec::new();
    while let Some((head, rest)) = received.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        if head[3] == GO_AWAY {
            errors.push(u32::from_be_bytes(payload[4..8].try_into().expect("four bytes")));
        }
        received = rest;
    }
    errors
}

async fn serves_others(server: &Server) {
    let answer = timeout(SOON, server.get(BodyEncoding::Json, "/livez")).await.expect("in time");
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn requests_cancelled_at_once_close_the_connection() {
    let server = Server::start().await;
    let mut stream = 1;
    let received = flood(server.connect().await, &[], || {
        let asked = frame(HEADERS, END_STREAM | END_HEADERS, stream, &request("GET"));
        let taken_back = frame(RESET, 0, stream, &8u32.to_be_bytes());
        stream += 2;
        [asked, taken_back].concat()
    });
    assert_eq!(goaway_errors(&received.await), [ENHANCE_YOUR_CALM]);
    assert!(stream < 100_000, "{stream}");
    serves_others(&server).await;
}

#[tokio::test]
async fn an_endless_head_closes_the_connection() {
    let server = Server::start().await;
    let first = frame(HEADERS, END_STREAM, 1, &request("GET"));
    let mut sent = 0_usize;
    // A field of 4000 bytes that is not indexed, repeated.
    let field = [&[0, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
    flood(server.connect().await, &first, || {
        sent += field.len();
        frame(CONTINUATION, 0, 1, &field)
    })
    .await;
    assert!(sent < 16 << 20, "{sent}");
    serves_others(&server).await;
}

#[tokio::test]
async fn endless_empty_frames_close_the_connection() {
    let server = Server::start().await;
    let first = frame(HEADERS, END_HEADERS, 1, &request("POST"));
    let received =
        flood(server.connect().await, &first, || frame(DATA, 0, 1, &[]).repeat(100)).await;
    assert_eq!(goaway_errors(&received), [ENHANCE_YOUR_CALM]);
    serves_others(&server).await;
}

/// Each of these frames needs an answer. A client that does not read the answers is closed.
#[tokio::test]
async fn unread_responses_close_the_connection() {
    let listening =
        listen::Options { write_time: Span::from_millis(300), ..listen::Options::default() };
    for (kind, payload) in [(SETTINGS, &[][..]), (PING, &[0; 8])] {
        let server = Server::start_with(Default::default(), listening.clone()).await;
        let mut stream = server.connect().await;
        let start = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        stream.write_all(&start).await.expect("taken");
        let many = frame(kind, 0, 0, payload).repeat(1000);
        let mut sent = 0_usize;
        let flooded = timeout(SOON, async {
            while stream.write_all(&many).await.is_ok() {
                sent += many.len();
                serves_others(&server).await;
            }
        });
        flooded.await.expect("it is closed in time");
        // At most what the network buffers of both ends hold.
        assert!(sent < 64 << 20, "{sent}");
        serves_others(&server).await;
    }
}
