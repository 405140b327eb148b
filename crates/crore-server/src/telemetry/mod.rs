//! Traces, sent to whoever collects them: as OTLP over HTTP, or to Zipkin.
//!
//! OTLP is spoken as `http/protobuf`, which every collector takes beside gRPC, and its one message is written by
//! hand: our spans are made when they are over, with ids of their own, so that of an SDK only the writing of that
//! message would be used, and of gRPC only its framing. So traces bring no dependency with them. Zipkin is JSON, which
//! is here anyway.

mod otlp;
mod post;
mod zipkin;

use std::time::Duration;

use crore_api::telemetry::{Span, Spans};
use crore_doors::Doors;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::config::{Protocol, Telemetry};
use crate::drain::Closing;
use post::Post;

/// So many spans go together at the most.
const TOGETHER: usize = 512;
/// How long spans wait for company.
const GATHER_FOR: Duration = Duration::from_secs(1);
/// How often the same spans are sent before they are given up.
const TRIES: u32 = 3;
/// How long to wait before they are sent again; more each time.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How long what is left may take when the server ends.
const FLUSH_FOR: Duration = Duration::from_secs(3);
/// How often somebody is told that a collector is down.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Sends spans, until it is told that there will be no more.
#[derive(Debug)]
pub(crate) struct Exporter {
    task: JoinHandle<()>,
    ended: Closing,
}

/// Begins to send spans, if the configuration says where to.
pub(crate) fn start(config: &Telemetry, doors: &Doors) -> anyhow::Result<Option<Exporter>> {
    let Some(endpoint) = &config.endpoint else { return Ok(None) };
    let Some(spans) = doors.trace(config.traces.clone()) else { return Ok(None) };
    let post = Post::new(&endpoint.0, config.protocol)?;
    tracing::info!(endpoint = endpoint.0, "traces are sent");
    let sender = Sender {
        spans,
        batch: Vec::new(),
        post,
        protocol: config.protocol,
        service: config.traces.service.clone(),
        told_at: None,
    };
    let ended = Closing::new();
    let task = tokio::spawn(sender.run(ended.closed()));
    Ok(Some(Exporter { task, ended }))
}

impl Exporter {
    /// Sends what is left, as far as that does not take long.
    pub(crate) async fn finish(self) {
        self.ended.close();
        if timeout(FLUSH_FOR, self.task).await.is_err() {
            tracing::warn!("some traces were not sent: their collector does not answer");
        }
    }
}

/// The loop that sends.
struct Sender {
    spans: Spans,
    /// Those that are gathered, or under way: they are kept here, so that none is lost when the server ends.
    batch: Vec<Span>,
    post: Post,
    protocol: Protocol,
    service: String,
    /// When somebody was last told that a collector is down.
    told_at: Option<Instant>,
}

impl Sender {
    async fn run(mut self, ended: impl Future<Output = ()>) {
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                more = self.round() => if !more { return },
                () = ended.as_mut() => break,
            }
        }
        loop {
            self.batch.extend(self.spans.waiting(TOGETHER));
            if self.batch.is_empty() {
                return;
            }
            self.send_once().await;
        }
    }

    /// Sends what comes next; `false`: nothing will come any more.
    async fn round(&mut self) -> bool {
        self.gather().await;
        if self.batch.is_empty() {
            return false;
        }
        self.deliver().await;
        true
    }

    /// The next spans, with those that come within a moment.
    async fn gather(&mut self) {
        let first = self.spans.next(TOGETHER).await;
        self.batch.extend(first);
        let ends_at = Instant::now() + GATHER_FOR;
        while (1..TOGETHER).contains(&self.batch.len()) {
            let more = self.spans.next(TOGETHER - self.batch.len());
            match timeout_at(ends_at, more).await {
                Ok(more) if !more.is_empty() => self.batch.extend(more),
                _ => break,
            }
        }
    }

    /// Sends what was gathered, again and again for a while. What comes meanwhile waits, and is dropped if it is too
    /// much: a collector that is down costs no more than that.
    async fn deliver(&mut self) {
        for nth in 1..TRIES {
            match self.post().await {
                Ok(()) => return self.sent(),
                Err(error) => self.complain(&error),
            }
            sleep_until(Instant::now() + AGAIN_AFTER * nth).await;
        }
        self.send_once().await;
    }

    async fn send_once(&mut self) {
        if let Err(error) = self.post().await {
            self.spans.dropped(self.batch.len());
            self.batch.clear();
            return self.complain(&error);
        }
        self.sent();
    }

    fn sent(&mut self) {
        self.spans.sent(self.batch.len());
        self.batch.clear();
    }

    async fn post(&mut self) -> anyhow::Result<()> {
        let body = match self.protocol {
            Protocol::Otlp => otlp::request(&self.service, &self.batch),
            Protocol::Zipkin => zipkin::list(&self.service, &self.batch)?,
        };
        self.post.send(body).await
    }

    fn complain(&mut self, error: &anyhow::Error) {
        let now = Instant::now();
        if self.told_at.is_none_or(|told_at| now - told_at >= COMPLAIN_EVERY) {
            self.told_at = Some(now);
            tracing::warn!("traces cannot be sent: {error:#}; that is said once a minute");
        }
    }
}
