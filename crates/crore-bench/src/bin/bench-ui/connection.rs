//! A browser's connection: it sends a request, and notes when the first byte of the response arrives.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept alive.
#[derive(Debug)]
pub(crate) struct PageConnection {
    stream: TcpStream,
    address: SocketAddr,
}

/// A response.
#[derive(Debug)]
pub(crate) struct PageResponse {
    pub(crate) first_byte: Duration,
    pub(crate) body: Vec<u8>,
}

impl PageConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, address }
    }

    /// Loads a page or a file, which has to be a success.
    pub(crate) async fn get(&mut self, path: &str, more: &str) -> PageResponse {
        let start = Instant::now();
        self.send(path, more).await;
        let mut bytes = Vec::with_capacity(64 << 10);
        self.read(&mut bytes).await;
        let first_byte = start.elapsed();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            self.read(&mut bytes).await;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let length: usize = length.unwrap_or_else(|| panic!("{path} has no length: {head}"));
        while bytes.len() < end + 4 + length {
            self.read(&mut bytes).await;
        }
        PageResponse { first_byte, body: bytes.split_off(end + 4) }
    }

    /// Sends a request without waiting for the response.
    pub(crate) async fn send(&mut self, path: &str, more: &str) {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\naccept: text/html,*/*;q=0.8\r\n\
             accept-encoding: gzip, deflate, br, zstd\r\n{more}\r\n",
            self.address
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Reads some bytes.
    pub(crate) async fn read(&mut self, into: &mut Vec<u8>) {
        let n = self.stream.read_buf(into).await.unwrap();
        assert!(n > 0, "the server closed the connection");
    }
}
