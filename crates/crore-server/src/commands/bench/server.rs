//! What is asked of the server before and after a run: what it is, what it has cost, and what it still has.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use crore_api::metrics::Process;
use crore_wire::api::info::Info;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::client::{Client, list, with_query};
use crate::cli::Remote;

/// How long jobs that somebody still has are waited for, so that they can be removed.
const TIDY_FOR: Duration = Duration::from_secs(10);
/// How often that is tried.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// The server, and what this run has there.
#[derive(Debug)]
pub(super) struct Server {
    client: Client,
    queue: String,
    kind: String,
}

/// Jobs, by their states.
pub(super) type Left = BTreeMap<String, u64>;

impl Server {
    pub(super) fn new(remote: &Remote, queue: &str, kind: &str) -> anyhow::Result<Self> {
        let mut client = Client::new(remote)?;
        client.be_patient();
        Ok(Self { client, queue: queue.to_owned(), kind: kind.to_owned() })
    }

    /// What it is.
    pub(super) fn info(&mut self) -> anyhow::Result<Info> {
        serde_json::from_value(self.client.get("/v1/info")?).context("what answers is no crore")
    }

    /// Whether what is pushed can be removed again.
    pub(super) fn may_tidy(&mut self) -> anyhow::Result<()> {
        let why = "what is pushed could not be removed again";
        self.act("delete", true).map(drop).context(why)
    }

    /// What it has cost so far; `None`: it does not say.
    pub(super) fn usage(&mut self) -> Option<Process> {
        let page = self.client.get_text("/metrics").ok()?;
        let value = |name: &str| {
            let mut lines = page.lines();
            let text = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            text.parse::<f64>().ok()
        };
        Some(Process {
            cpu_seconds: value("process_cpu_seconds_total")?,
            resident_bytes: value("process_resident_memory_bytes")? as u64,
        })
    }

    /// What it still has of this run.
    pub(super) fn left(&mut self) -> anyhow::Result<Left> {
        let path = with_query("/v1/counts", &[("queue", Some(self.queue.clone()))]);
        let mut left = Left::new();
        for count in list(self.client.get(&path)?, "counts") {
            let text = |name: &str| count.get(name).and_then(Value::as_str).unwrap_or_default();
            let n = count.get("n").and_then(Value::as_u64).unwrap_or_default();
            if text("kind") == self.kind && n > 0 {
                left.insert(text("state").to_owned(), n);
            }
        }
        Ok(left)
    }

    /// Removes everything of this run, and gives what cannot be removed.
    pub(super) fn tidy(&mut self) -> anyhow::Result<Left> {
        let until = Instant::now() + TIDY_FOR;
        loop {
            self.act("delete", false)?;
            let left = self.left()?;
            if left.is_empty() || Instant::now() >= until {
                return Ok(left);
            }
            thread::park_timeout(TRY_EVERY);
        }
    }

    fn act(&mut self, act: &str, dry_run: bool) -> anyhow::Result<Value> {
        let filter = json!({ "queue": self.queue, "kind": self.kind });
        let body = json!({ "act": act, "filter": filter, "dry_run": dry_run });
        self.client.post("/v1/jobs/act", &body)
    }
}
