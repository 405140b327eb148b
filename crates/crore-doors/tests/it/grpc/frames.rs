//! Calls as raw bytes that no client library would send.

use bytes::Bytes;
use crore_wire::grpc::{RpcStatus, v1};
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::Server;

/// A response.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    trailers: HeaderMap,
}

impl RawResponse {
    /// The gRPC status, from trailers or headers.
    pub(crate) fn grpc(&self) -> Option<i32> {
        let status =
            self.trailers.get("grpc-status").or_else(|| self.headers.get("grpc-status"))?;
        status.to_str().ok()?.parse().ok()
    }

    /// The problem in the status details.
    pub(crate) fn problem(&self) -> Option<v1::Problem> {
        let status = tonic::Status::from_header_map(&self.trailers)
            .or_else(|| tonic::Status::from_header_map(&self.headers))?;
        let details = RpcStatus::decode(status.details()).ok()?;
        v1::Problem::decode(&*details.details.first()?.value).ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A message in a gRPC frame.
pub(crate) fn framed(message: &impl Message) -> Vec<u8> {
    frame(0, &message.encode_to_vec())
}

/// Bytes in a gRPC frame with this flag.
pub(crate) fn frame(flag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![flag];
    frame.extend((bytes.len() as u32).to_be_bytes());
    frame.extend(bytes);
    frame
}

/// A request with this path and these headers.
pub(crate) fn request(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let uri = format!("http://{}{path}", server.address);
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).expect("a request")
}

/// A connection for arbitrary requests.
pub(crate) enum RawConnection {
    One(hyper::client::conn::http1::SendRequest<Full<Bytes>>, String),
    Two(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

impl RawConnection {
    pub(crate) async fn open(server: &Server, version: Version) -> Self {
        let io = TokioIo::new(server.connect().await);
        if version == Version::HTTP_2 {
            let executor = TokioExecutor::new();
            let (line, connection) =
                hyper::client::conn::http2::handshake(executor, io).await.expect("HTTP/2");
            tokio::spawn(connection);
            return Self::Two(line);
        }
        let (line, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        Self::One(line, server.address.to_string())
    }

    /// Starts a call; returns the status if it ends immediately.
    pub(crate) async fn begin(&mut self, request: Request<Full<Bytes>>) -> Option<i32> {
        let response = self.request(request).await;
        let status = response.headers().get("grpc-status")?;
        status.to_str().ok()?.parse().ok()
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> RawResponse {
        let (parts, body) = self.request(request).await.into_parts();
        let body = body.collect().await.expect("a complete response");
        let trailers = body.trailers().cloned().unwrap_or_default();
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        RawResponse { status, headers, body: body.to_bytes(), trailers }
    }

    async fn request(&mut self, mut request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        let response = match self {
            Self::Two(line) => line.send_request(request).await,
            Self::One(line, host) => {
                let host = host.parse().expect("a host");
                request.headers_mut().insert(http::header::HOST, host);
                let path = request.uri().path().parse().expect("a path");
                *request.uri_mut() = path;
                line.ready().await.expect("the connection goes on");
                line.send_request(request).await
            }
        };
        response.expect("an answer")
    }
}

/// An HTTP/2 connection, frame by frame.
pub(crate) struct Http2Frames(TcpStream);

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

impl Http2Frames {
    /// Connects, with these settings.
    pub(crate) async fn open(server: &Server, settings: &[(u16, u32)]) -> Self {
        let mut stream = server.connect().await;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("written");
        let mut frames = Self(stream);
        let settings = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat());
        frames.write(SETTINGS, 0, 0, &settings.collect::<Vec<_>>()).await.expect("written");
        frames
    }

    pub(crate) async fn write(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        bytes: &[u8],
    ) -> std::io::Result<()> {
        let mut frame = (bytes.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(bytes);
        self.0.write_all(&frame).await
    }

    /// The next frame: type, stream and payload; `None`: the connection is closed.
    pub(crate) async fn read(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let [a, b, c, kind, flags, stream @ ..] = head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let mut bytes = vec![0; length];
            self.0.read_exact(&mut bytes).await.ok()?;
            if kind == SETTINGS && flags & ACK == 0 {
                self.write(SETTINGS, ACK, 0, &[]).await.ok()?;
                continue;
            }
            return Some((kind, u32::from_be_bytes(stream), bytes));
        }
    }

    /// Reads until the connection is closed; returns the error code of GOAWAY, if there was one.
    pub(crate) async fn read_goaway(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some((kind, _, bytes)) = self.read().await {
            if kind == GOAWAY {
                code = bytes
                    .get(4..8)
                    .map(|code| u32::from_be_bytes([code[0], code[1], code[2], code[3]]));
            }
        }
        code
    }
}

/// The header block of a call, uncompressed.
pub(crate) fn head(server: &Server, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let authority = server.address.to_string();
    let mut lines = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", authority.as_str()),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    lines.extend(more);
    let mut bytes = Vec::new();
    for (name, value) in lines {
        bytes.push(0);
        for text in [name, value] {
            bytes.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).expect("a short text"));
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}
