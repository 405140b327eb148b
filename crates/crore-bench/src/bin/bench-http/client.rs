//! A cheap client: requests are prepared bytes, and only the status and the length of a response are read.

use std::net::SocketAddr;
use std::str;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept alive.
#[derive(Debug)]
pub(crate) struct BareConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The bytes of a request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl BareConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(4096) }
    }

    /// Sends a request, and waits for its response.
    pub(crate) async fn call(&mut self, request: &[u8]) -> &str {
        self.send(request).await;
        self.answer().await
    }

    pub(crate) async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
    }

    /// The body of the next response, which has to be a success.
    pub(crate) async fn answer(&mut self) -> &str {
        self.buffer.clear();
        loop {
            let n = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(n > 0, "the server closed the connection");
            let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                continue;
            };
            let head = str::from_utf8(&self.buffer[..end]).unwrap();
            assert!(head.starts_with("HTTP/1.1 2"), "{}", String::from_utf8_lossy(&self.buffer));
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
            });
            let body = end + 4..end + 4 + length.unwrap_or(0);
            if self.buffer.len() >= body.end {
                return str::from_utf8(&self.buffer[body]).unwrap();
            }
        }
    }
}
