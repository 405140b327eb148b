//! HTTP client for a trace collector: one connection, reopened when it breaks.

use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::commands::client::{ServerUrl, parse_url, start_http};
use crate::commands::tls::ClientTls;
use crate::config::ExportProtocol;

/// Timeout of a request, including the connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response body.
const MAX_RESPONSE: usize = 64 << 10;

/// Posts request bodies to a collector.
#[derive(Debug)]
pub(super) struct CollectorClient {
    to: ServerUrl,
    path: String,
    content_type: &'static str,
    tls: Option<ClientTls>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl CollectorClient {
    /// Client for a URL; without a path, the protocol's default path is used.
    pub(super) fn new(url: &str, protocol: ExportProtocol) -> anyhow::Result<Self> {
        let to = parse_url(url)?;
        let tls = to.is_https.then(|| ClientTls::new(&to.host, None)).transpose()?;
        let (default_path, content_type) = match protocol {
            ExportProtocol::Otlp => ("/v1/traces", "application/x-protobuf"),
            ExportProtocol::Zipkin => ("/api/v2/spans", "application/json"),
        };
        let path = if to.prefix.is_empty() { default_path } else { &to.prefix }.to_owned();
        Ok(Self { to, path, content_type, tls, connection: None })
    }

    /// Posts a body; fails unless the collector accepts it.
    pub(super) async fn send(&mut self, body: Vec<u8>) -> anyhow::Result<()> {
        let url = format!("{}{}", self.to.authority, self.path);
        let sent = timeout(REQUEST_TIMEOUT, self.send_once(body)).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.connection = None;
        }
        sent.context("timeout").flatten().with_context(|| url)
    }

    async fn send_once(&mut self, body: Vec<u8>) -> anyhow::Result<()> {
        let mut sender = match self.connection.take() {
            Some(open) if !open.is_closed() => open,
            _ => self.connect().await?,
        };
        let request = Request::post(&self.path)
            .header(HOST, &self.to.authority)
            .header(CONTENT_TYPE, self.content_type)
            .body(Full::new(Bytes::from(body)))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
        if answer.is_ok() {
            self.connection = Some(sender);
        }
        if !status.is_success() {
            bail!("the collector responded with {status}");
        }
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.to.authority).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => start_http(stream).await,
            Some(tls) => start_http(tls.connect(stream).await?).await,
        }
    }
}
