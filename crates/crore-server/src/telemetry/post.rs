//! One connection to a collector, made again when it is gone.

use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::commands::client::{Parts, begin, parts};
use crate::commands::tls::Tls;
use crate::config::Protocol;

/// How long a collector may take for everything.
const ANSWER_FOR: Duration = Duration::from_secs(10);
/// As much of an answer is read as tells that it is over.
const LONGEST: usize = 64 << 10;

/// Posts bodies to a collector.
#[derive(Debug)]
pub(super) struct Post {
    to: Parts,
    path: String,
    content_type: &'static str,
    tls: Option<Tls>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Post {
    /// To a URL; one without a path means the protocol's usual one.
    pub(super) fn new(url: &str, protocol: Protocol) -> anyhow::Result<Self> {
        let to = parts(url)?;
        let tls = to.is_https.then(|| Tls::new(&to.host, None)).transpose()?;
        let (usual, content_type) = match protocol {
            Protocol::Otlp => ("/v1/traces", "application/x-protobuf"),
            Protocol::Zipkin => ("/api/v2/spans", "application/json"),
        };
        let path = if to.prefix.is_empty() { usual } else { &to.prefix }.to_owned();
        Ok(Self { to, path, content_type, tls, connection: None })
    }

    /// Posts a body; an error says why it was not taken.
    pub(super) async fn send(&mut self, body: Vec<u8>) -> anyhow::Result<()> {
        let url = format!("{}{}", self.to.authority, self.path);
        let sent = timeout(ANSWER_FOR, self.try_to_send(body)).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.connection = None;
        }
        sent.context("no answer").flatten().with_context(|| url)
    }

    async fn try_to_send(&mut self, body: Vec<u8>) -> anyhow::Result<()> {
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
        let answer = Limited::new(response.into_body(), LONGEST).collect().await;
        if answer.is_ok() {
            self.connection = Some(sender);
        }
        if !status.is_success() {
            bail!("the collector answered {status}");
        }
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.to.authority).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => begin(stream).await,
            Some(tls) => begin(tls.connect(stream).await?).await,
        }
    }
}
