//! Requests as raw bytes, from any loopback address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A response.
#[derive(Debug)]
pub(crate) struct RawReply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl RawReply {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        self.problem("code")
    }

    /// A field of a problem.
    pub(crate) fn problem(&self, field: &str) -> String {
        let problem: Value = serde_json::from_str(&self.body).unwrap_or_default();
        problem[field].as_str().unwrap_or_default().to_owned()
    }
}

/// Connects from `127.0.0.n`.
pub(crate) async fn connect(to: SocketAddr, n: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, n)), 0);
    socket.bind(from).expect("an address of this machine");
    socket.connect(to).await.expect("a connection")
}

/// Sends bytes and reads the response: its head, and the body if its length is given.
pub(crate) async fn send(to: SocketAddr, n: u8, bytes: &str) -> RawReply {
    let mut stream = connect(to, n).await;
    stream.write_all(bytes.as_bytes()).await.expect("written");
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).await.expect("read");
        read.extend_from_slice(buffer.get(..n).unwrap_or_default());
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(n > 0, "closed before the end of the head: {text}");
            continue;
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let response = RawReply {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        };
        let length = response.header("content-length").and_then(|length| length.parse().ok());
        if n == 0 || length.is_none_or(|length: usize| body.len() >= length) {
            return response;
        }
    }
}

/// A request with these header lines, and a JSON body if the method has one.
pub(crate) fn request(method: &str, path: &str, to: SocketAddr, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let body = if method == "GET" || method == "DELETE" { "" } else { "{}" };
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\n{lines}{kind}content-length: {length}\r\n\r\n{body}"
    )
}
