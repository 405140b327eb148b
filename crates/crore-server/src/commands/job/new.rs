//! Flags that describe a job to push.

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::object_of;
use crate::exit::{CliError, FailureCode};

#[derive(Debug, Clone, Args)]
pub(crate) struct JobArgs {
    /// Kind of the job
    pub(super) kind: String,
    /// Payload: JSON, or @FILE
    pub(super) payload: Option<String>,
    /// Queue [default: that of the kind's handler, or the queue named after the kind]
    #[arg(long)]
    queue: Option<String>,
    /// Priority; smaller runs first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Earliest start, such as 2026-11-15T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    due: Option<String>,
    /// Delay before the earliest start, such as 10m
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
    /// Maximum number of attempts [default: 20, or that of the kind's handler]
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// Timeout of each run [default: that of the kind's handler, or none]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Lease duration: a job whose lease is not renewed for this long goes to another worker [default: 30s]
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
    /// Retention of the result [default: that of the kind's handler, or not kept]
    #[arg(long, value_name = "DURATION")]
    keep_result: Option<String>,
    /// Unique key: while an unfinished job has it, another push stores nothing and returns that job
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Your own id for the job; another push with the same id stores nothing and returns the first job
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Job that must succeed first; may be repeated
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// Label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::pair)]
    label: Vec<(String, String)>,
}

impl JobArgs {
    /// The job as a request body.
    pub(crate) fn body(self) -> anyhow::Result<JobBody> {
        let payload = match self.payload.as_deref() {
            Some(text) => Some(payload(text)?),
            None => None,
        };
        Ok(self.body_with(payload))
    }

    /// The same with another payload.
    pub(super) fn body_with(self, payload: Option<Box<RawValue>>) -> JobBody {
        let after = |id: String| object_of([("job", Some(id.into()))]);
        let labels: Map<_, _> = self.label.into_iter().map(|(k, v)| (k, v.into())).collect();
        let fields = object_of([
            ("kind", Some(self.kind.into())),
            ("queue", self.queue.map(Into::into)),
            ("priority", self.priority.map(Into::into)),
            ("due", self.due.map(Into::into)),
            ("delay", self.delay.map(Into::into)),
            ("retry", self.attempts.map(|n| object_of([("max_attempts", Some(n.into()))]))),
            ("timeout", self.timeout.map(Into::into)),
            ("lease", self.lease.map(Into::into)),
            ("keep_result", self.keep_result.map(Into::into)),
            ("unique", self.unique.map(|key| object_of([("key", Some(key.into()))]))),
            ("client_id", self.client_id.map(Into::into)),
            ("after", Some(self.after.into_iter().map(after).collect())),
            ("labels", Some(Value::Object(labels))),
        ]);
        JobBody { payload, fields }
    }
}

/// Request body of a job; the payload is sent as written.
#[derive(Debug, Serialize)]
pub(crate) struct JobBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(flatten)]
    fields: Value,
}

/// Reads a payload argument: JSON, or the JSON in a file.
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
        wrong(format!("the payload `{shown}` is not JSON: {error}; write a string as '\"text\"'"))
    });
    Ok(parsed?)
}

fn wrong(message: String) -> CliError {
    CliError::new(FailureCode::Usage, message)
}
