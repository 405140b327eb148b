//! Queries to the server before and after a run: its version, its resource usage and its remaining jobs; and the
//! clean-up.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use crore_api::metrics::ProcessUsage;
use crore_wire::api::info::Info;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::client::{ApiClient, list_field, with_query};
use crate::cli::RemoteArgs;

/// Time to delete jobs that are still leased.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts to delete them.
const CLEAN_UP_INTERVAL: Duration = Duration::from_millis(100);

/// The server, and the jobs of this run on it.
#[derive(Debug)]
pub(super) struct ServerProbe {
    client: ApiClient,
    queue: String,
    kind: String,
}

/// Number of jobs by state.
pub(super) type StateCounts = BTreeMap<String, u64>;

impl ServerProbe {
    pub(super) fn new(remote: &RemoteArgs, queue: &str, kind: &str) -> anyhow::Result<Self> {
        let mut client = ApiClient::new(remote)?;
        client.use_long_timeout();
        Ok(Self { client, queue: queue.to_owned(), kind: kind.to_owned() })
    }

    /// Version and durability of the server.
    pub(super) fn info(&mut self) -> anyhow::Result<Info> {
        serde_json::from_value(self.client.get("/v1/info")?)
            .context("the server is not a crore server")
    }

    /// Checks that pushed jobs can be deleted afterwards.
    pub(super) fn check_clean_up(&mut self) -> anyhow::Result<()> {
        let why = "the pushed jobs could not be deleted afterwards";
        self.act("delete", true).map(drop).context(why)
    }

    /// Resource usage so far; `None` if its metrics do not include it.
    pub(super) fn usage(&mut self) -> Option<ProcessUsage> {
        let page = self.client.get_text("/metrics").ok()?;
        let value = |name: &str| {
            let mut lines = page.lines();
            let text = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            text.parse::<f64>().ok()
        };
        Some(ProcessUsage {
            cpu_seconds: value("process_cpu_seconds_total")?,
            resident_bytes: value("process_resident_memory_bytes")? as u64,
        })
    }

    /// Jobs of this run that it still has.
    pub(super) fn remaining_jobs(&mut self) -> anyhow::Result<StateCounts> {
        let path = with_query("/v1/counts", &[("queue", Some(self.queue.clone()))]);
        let mut left = StateCounts::new();
        for count in list_field(self.client.get(&path)?, "counts") {
            let text = |name: &str| count.get(name).and_then(Value::as_str).unwrap_or_default();
            let n = count.get("n").and_then(Value::as_u64).unwrap_or_default();
            if text("kind") == self.kind && n > 0 {
                left.insert(text("state").to_owned(), n);
            }
        }
        Ok(left)
    }

    /// Deletes all jobs of this run; returns those that remain.
    pub(super) fn clean_up(&mut self) -> anyhow::Result<StateCounts> {
        let until = Instant::now() + CLEAN_UP_TIMEOUT;
        loop {
            self.act("delete", false)?;
            let left = self.remaining_jobs()?;
            if left.is_empty() || Instant::now() >= until {
                return Ok(left);
            }
            thread::park_timeout(CLEAN_UP_INTERVAL);
        }
    }

    fn act(&mut self, act: &str, dry_run: bool) -> anyhow::Result<Value> {
        let filter = json!({ "queue": self.queue, "kind": self.kind });
        let body = json!({ "act": act, "filter": filter, "dry_run": dry_run });
        self.client.post("/v1/jobs/act", &body)
    }
}
