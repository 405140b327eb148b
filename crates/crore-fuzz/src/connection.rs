//! The bytes of a connection: the accept path, with HTTP/1.1 and HTTP/2.

use std::time::Duration;

use crore_doors::listen::{self, serve_connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::timeout;

use crate::memory::MemoryBound;
use crate::server::{LOCAL, MemoryServer, PEER};

/// The base holds the buffers of a connection and the largest responses that do not depend on requests.
const MEMORY: MemoryBound = MemoryBound { base: 8 << 20, per_byte: 2048 };

/// Longest time of a connection, in the paused time of the runtime.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Space for bytes that were written and not read yet.
const PIPE_BYTES: usize = 64 << 10;
/// Requests may be pipelined, so a short input may have long responses.
const MAX_OUTPUT: usize = 4 << 20;

pub(crate) fn run(input: &[u8]) {
    let server = MemoryServer::new();
    let output = MEMORY.check(input.len(), || server.run(exchange(&server, input)));
    let text = String::from_utf8_lossy(&output);
    assert!(!text.contains("HTTP/1.1 500"), "{text}");
    if !input.starts_with(b"PRI") && !output.is_empty() {
        assert!(text.starts_with("HTTP/1."), "not a response: {text}");
    }
}

/// Sends all bytes, and returns what the server answers until it closes the connection or waits for more.
async fn exchange(server: &MemoryServer, input: &[u8]) -> Vec<u8> {
    let (client, stream) = duplex(PIPE_BYTES);
    let options = listen::Options::default();
    let serving = serve_connection(stream, server.doors.served(), options, PEER, LOCAL);
    let (mut reader, mut writer) = tokio::io::split(client);
    let writing = async {
        // A server that has closed the connection reads no more.
        let _ = writer.write_all(input).await;
        let _ = writer.shutdown().await;
    };
    let reading = async {
        let mut output = Vec::new();
        let _ = (&mut reader).take(MAX_OUTPUT as u64).read_to_end(&mut output).await;
        output
    };
    let all = async { tokio::join!(tokio::spawn(serving), writing, reading) };
    timeout(CONNECTION_TIME, all).await.map(|(_, (), output)| output).unwrap_or_default()
}
