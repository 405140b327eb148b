//! The bytes of a connection: the accept path, with HTTP/1.1 and HTTP/2, and the guard of all doors.
//!
//! Requests are answered by a small router; the doors have targets of their own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use crore_doors::listen::{self, serve_connection};
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep_until, timeout};

use crate::memory::MemoryBound;
use crate::server::{PEER, paused_runtime};

/// The base covers the buffers of a connection. An HTTP/2 header may take only two bytes on the wire.
const MEMORY: MemoryBound = MemoryBound { base: 1 << 20, per_byte: 512 };

/// The address of the server, which requests name as their host.
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7077);

/// Longest time of a connection, in the paused time of the runtime.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Space for bytes that were written and not read yet.
const PIPE_BYTES: usize = 64 << 10;
/// Maximum length of a request body.
const MAX_BODY: usize = 16 << 10;

pub(crate) fn run(input: &[u8]) {
    let runtime = paused_runtime();
    let output = MEMORY.check(input.len(), || runtime.block_on(exchange(input)));
    let text = String::from_utf8_lossy(&output);
    assert!(!text.contains("HTTP/1.1 500"), "{text}");
    if !input.starts_with(b"PRI") && !output.is_empty() {
        assert!(text.starts_with("HTTP/1."), "not a response: {text}");
    }
}

/// Sends all bytes, and returns what the server answers until it closes the connection.
async fn exchange(input: &[u8]) -> Vec<u8> {
    let (client, stream) = duplex(PIPE_BYTES);
    let options = listen::Options::default();
    let serving = tokio::spawn(serve_connection(stream, router(), options, PEER, LOCAL));
    let (mut reader, mut writer) = tokio::io::split(client);
    let writing = async {
        // A server that has closed the connection reads no more.
        let _ = writer.write_all(input).await;
        let _ = writer.shutdown().await;
    };
    let reading = async {
        let mut output = Vec::new();
        let _ = reader.read_to_end(&mut output).await;
        output
    };
    let all = async { tokio::join!(serving, writing, reading) };
    timeout(CONNECTION_TIME, all).await.map(|(_, (), output)| output).unwrap_or_default()
}

/// Answers with the length of the body, on one path late enough to be a slow response.
fn router() -> Router {
    let slow = async |body: Body| {
        sleep_until(Instant::now() + Duration::from_secs(1)).await;
        answer(body).await
    };
    Router::new().route("/slow", any(slow)).fallback(answer)
}

async fn answer(body: Body) -> (StatusCode, String) {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => (StatusCode::OK, body.to_bytes().len().to_string()),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    }
}
