//! Trace exporter: sends finished spans to a collector, as OTLP over HTTP or as Zipkin JSON.
//!
//! OTLP is sent as `http/protobuf`, which every collector accepts, in hand-written messages. Spans are created when
//! they have ended and have computed ids, so an OpenTelemetry SDK would add dependencies but no function.

mod collector;
mod otlp;
mod zipkin;

use std::time::Duration;

use crore_api::telemetry::{SpanReceiver, TraceSpan};
use crore_doors::Doors;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::config::{ExportProtocol, TelemetryConfig};
use crate::drain::ShutdownFlag;
use collector::CollectorClient;

/// Maximum spans per request.
const MAX_BATCH: usize = 512;
/// Time to collect a batch of spans.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Attempts to send a batch before it is dropped.
const MAX_ATTEMPTS: u32 = 3;
/// First delay between attempts; it grows linearly.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Time to send the remaining spans on shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum interval between warnings about a failing collector.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Handle of the export task.
#[derive(Debug)]
pub(crate) struct Exporter {
    task: JoinHandle<()>,
    ended: ShutdownFlag,
}

/// Starts the exporter if an endpoint is configured.
pub(crate) fn start(config: &TelemetryConfig, doors: &Doors) -> anyhow::Result<Option<Exporter>> {
    let Some(endpoint) = &config.endpoint else { return Ok(None) };
    let Some(spans) = doors.trace(config.traces.clone()) else { return Ok(None) };
    let post = CollectorClient::new(&endpoint.0, config.protocol)?;
    tracing::info!(endpoint = endpoint.0, "exporting traces");
    let sender = ExportLoop {
        spans,
        batch: Vec::new(),
        post,
        protocol: config.protocol,
        service: config.traces.service.clone(),
        warned_at: None,
    };
    let ended = ShutdownFlag::new();
    let task = tokio::spawn(sender.run(ended.wait()));
    Ok(Some(Exporter { task, ended }))
}

impl Exporter {
    /// Sends the remaining spans, within a time limit.
    pub(crate) async fn finish(self) {
        self.ended.set();
        if timeout(FLUSH_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("some traces were not exported: the collector does not respond");
        }
    }
}

/// The export loop.
struct ExportLoop {
    spans: SpanReceiver,
    /// Spans being collected or sent. They stay here while a request is in flight, so that shutdown can send them
    /// again.
    batch: Vec<TraceSpan>,
    post: CollectorClient,
    protocol: ExportProtocol,
    service: String,
    /// When the last warning about the collector was logged.
    warned_at: Option<Instant>,
}

impl ExportLoop {
    async fn run(mut self, ended: impl Future<Output = ()>) {
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                more = self.export_next() => if !more { return },
                () = ended.as_mut() => break,
            }
        }
        loop {
            self.batch.extend(self.spans.waiting(MAX_BATCH));
            if self.batch.is_empty() {
                return;
            }
            self.send_once().await;
        }
    }

    /// Sends one batch; `false` when no more spans will come.
    async fn export_next(&mut self) -> bool {
        self.collect_batch().await;
        if self.batch.is_empty() {
            return false;
        }
        self.send_with_retries().await;
        true
    }

    /// Waits for spans and collects more for a moment.
    async fn collect_batch(&mut self) {
        let first = self.spans.next(MAX_BATCH).await;
        self.batch.extend(first);
        let ends_at = Instant::now() + BATCH_TIME;
        while (1..MAX_BATCH).contains(&self.batch.len()) {
            let more = self.spans.next(MAX_BATCH - self.batch.len());
            match timeout_at(ends_at, more).await {
                Ok(more) if !more.is_empty() => self.batch.extend(more),
                _ => break,
            }
        }
    }

    /// Sends the batch, with retries. Spans that arrive meanwhile wait, and are dropped if there are too many.
    async fn send_with_retries(&mut self) {
        for nth in 1..MAX_ATTEMPTS {
            match self.post().await {
                Ok(()) => return self.sent(),
                Err(error) => self.warn(&error),
            }
            sleep_until(Instant::now() + RETRY_DELAY * nth).await;
        }
        self.send_once().await;
    }

    async fn send_once(&mut self) {
        if let Err(error) = self.post().await {
            self.spans.dropped(self.batch.len());
            self.batch.clear();
            return self.warn(&error);
        }
        self.sent();
    }

    fn sent(&mut self) {
        self.spans.sent(self.batch.len());
        self.batch.clear();
    }

    async fn post(&mut self) -> anyhow::Result<()> {
        let body = match self.protocol {
            ExportProtocol::Otlp => otlp::request(&self.service, &self.batch),
            ExportProtocol::Zipkin => zipkin::list(&self.service, &self.batch)?,
        };
        self.post.send(body).await
    }

    fn warn(&mut self, error: &anyhow::Error) {
        let now = Instant::now();
        if self.warned_at.is_none_or(|warned_at| now - warned_at >= WARN_INTERVAL) {
            self.warned_at = Some(now);
            let error = format_args!("{error:#}");
            tracing::warn!(%error, "cannot export traces; logged once per minute");
        }
    }
}
