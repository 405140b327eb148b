//! A job to push, as flags say it.

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::said;
use crate::exit::{Failure, Why};

#[derive(Debug, Clone, Args)]
pub(crate) struct NewJob {
    /// What the job is to do
    pub(super) kind: String,
    /// Its payload: JSON, or @FILE
    pub(super) payload: Option<String>,
    /// Where it waits; the queue named after its kind, unless told otherwise
    #[arg(long)]
    queue: Option<String>,
    /// Smaller first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Not before this instant, as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    due: Option<String>,
    /// Not before this long from now, as 10m
    #[arg(long, value_name = "SPAN")]
    delay: Option<String>,
    /// How often it is tried
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// How long a run may take
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
    /// How long its worker may be silent
    #[arg(long, value_name = "SPAN")]
    lease: Option<String>,
    /// How long its result is kept
    #[arg(long, value_name = "SPAN")]
    keep_result: Option<String>,
    /// At most one job with this key at a time
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Your own id for it; a second push of the same is answered with the first
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Wait for the success of this job; may be given several times
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// A free mark; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::pair)]
    label: Vec<(String, String)>,
}

impl NewJob {
    /// The job as the API takes it.
    pub(crate) fn body(self) -> anyhow::Result<Body> {
        let payload = match self.payload.as_deref() {
            Some(text) => Some(payload(text)?),
            None => None,
        };
        Ok(self.body_with(payload))
    }

    /// The same with another payload.
    pub(super) fn body_with(self, payload: Option<Box<RawValue>>) -> Body {
        let after = |id: String| said([("job", Some(id.into()))]);
        let labels: Map<_, _> = self.label.into_iter().map(|(k, v)| (k, v.into())).collect();
        let fields = said([
            ("kind", Some(self.kind.into())),
            ("queue", self.queue.map(Into::into)),
            ("priority", self.priority.map(Into::into)),
            ("due", self.due.map(Into::into)),
            ("delay", self.delay.map(Into::into)),
            ("retry", self.attempts.map(|n| said([("max_attempts", Some(n.into()))]))),
            ("timeout", self.timeout.map(Into::into)),
            ("lease", self.lease.map(Into::into)),
            ("keep_result", self.keep_result.map(Into::into)),
            ("unique", self.unique.map(|key| said([("key", Some(key.into()))]))),
            ("client_id", self.client_id.map(Into::into)),
            ("after", Some(self.after.into_iter().map(after).collect())),
            ("labels", Some(Value::Object(labels))),
        ]);
        Body { payload, fields }
    }
}

/// A job as the API takes it, with its payload as it was written.
#[derive(Debug, Serialize)]
pub(crate) struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(flatten)]
    fields: Value,
}

/// A payload from the command line: JSON, or the JSON in a file.
fn payload(text: &str) -> anyhow::Result<Box<RawValue>> {
    if let Some(path) = text.strip_prefix('@') {
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|error| wrong(format!("cannot read `{path}`: {error}")))?;
        return json(&text, path);
    }
    json(text, text)
}

fn json(text: &str, shown: &str) -> anyhow::Result<Box<RawValue>> {
    let parsed = serde_json::from_str(text).map_err(|error| {
        wrong(format!("the payload `{shown}` is not JSON: {error}; a text is written '\"so\"'"))
    });
    Ok(parsed?)
}

fn wrong(message: String) -> Failure {
    Failure::new(Why::Usage, message)
}
