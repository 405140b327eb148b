//! `crore job replay`: pushes new jobs from the definitions of stored ones.

use std::process::ExitCode;

use clap::Args;
use crore_wire::api::enums::Encoding;
use crore_wire::units::{Moment, Period};
use serde_json::{Value, json};

use super::super::word::word;
use super::super::{CommandContext, object_of};
use super::act::{BulkRequest, act_on_matching};
use super::inspect::path;
use super::new::JobBody;
use super::payload::PayloadSource;
use crate::exit::{CliError, FailureCode};

/// The text of `--version` for any worker.
const ANY_VERSION: &str = "any";

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Job ids
    #[arg(value_name = "ID", required_unless_present = "filter", conflicts_with = "filter")]
    ids: Vec<String>,
    /// Replay all jobs that match, such as 'state:dead error~timeout'
    #[arg(long)]
    filter: Option<String>,
    /// New payload: JSON (see --encoding), or @FILE
    #[arg(long, value_name = "JSON", conflicts_with_all = ["file", "filter"])]
    payload: Option<String>,
    /// File with the new payload
    #[arg(long, value_name = "PATH", conflicts_with = "filter")]
    file: Option<String>,
    /// Encoding of the new payload: json, msgpack, protobuf, text, bytes [default: json]
    #[arg(long, value_parser = word::<Encoding>)]
    encoding: Option<Encoding>,
    /// New queue
    #[arg(long)]
    queue: Option<String>,
    /// New versions of the kind that may run the job, such as '>=2.3 <3', or any
    #[arg(long, value_name = "RANGE")]
    version: Option<String>,
    /// New priority; smaller runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Earliest start, such as 2026-11-15T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    due: Option<Moment>,
    /// Delay before the earliest start, such as 10m
    #[arg(long, value_name = "DURATION")]
    delay: Option<Period>,
    /// With --filter: only print how many jobs would be replayed
    #[arg(long, requires = "filter")]
    dry_run: bool,
    /// With --filter: do not ask for confirmation; required if there is no terminal
    #[arg(short, long, requires = "filter")]
    yes: bool,
}

impl ReplayArgs {
    /// The edits other than the payload.
    fn edits(&self) -> Value {
        let mut edits = object_of([
            ("queue", self.queue.clone().map(Into::into)),
            ("priority", self.priority.map(Into::into)),
            ("due", self.due.map(|due| json!(due))),
            ("delay", self.delay.map(|delay| json!(delay))),
        ]);
        match self.version.as_deref() {
            Some(ANY_VERSION) => edits["worker_version"] = Value::Null,
            Some(range) => edits["worker_version"] = range.into(),
            None => {}
        }
        edits
    }
}

pub(crate) fn run(call: CommandContext, replay: &ReplayArgs) -> anyhow::Result<ExitCode> {
    match &replay.filter {
        Some(filter) => replay_matching(call, replay, filter),
        None => replay_ids(call, replay),
    }
}

/// Replays each job in turn, and stops at the first error.
fn replay_ids(mut call: CommandContext, replay: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let source =
        PayloadSource { argument: replay.payload.as_deref(), file: replay.file.as_deref() };
    let mut pushed = Vec::new();
    for id in &replay.ids {
        let payload = source.read(replay.encoding.unwrap_or(Encoding::Json))?;
        let body = JobBody::new(payload, replay.edits());
        let mut answer = call.client.post(&format!("{}/replay", path(id)), &body)?;
        if let Value::Object(fields) = &mut answer {
            fields.insert("replay_of".to_owned(), id.as_str().into());
        }
        pushed.push(answer);
    }
    call.out.rows(&[("ID", "/id"), ("STATUS", "/status"), ("REPLAY OF", "/replay_of")], &pushed)?;
    Ok(ExitCode::SUCCESS)
}

fn replay_matching(
    call: CommandContext,
    replay: &ReplayArgs,
    filter: &str,
) -> anyhow::Result<ExitCode> {
    if filter.trim().is_empty() {
        let message = "the filter is empty; it would select all jobs";
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    let request = BulkRequest {
        act: "replay",
        filter: json!({ "q": filter }),
        replay: Some(replay.edits()),
        dry_run: replay.dry_run,
        yes: replay.yes,
    };
    act_on_matching(call, &request)
}
