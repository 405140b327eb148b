//! `crore job get | diff | ls | wait | result`.

use std::process::ExitCode;

use clap::Args;
use crore_wire::api::enums::State;
use crore_wire::units::Period;
use serde_json::{Value, json};

use super::super::CommandContext;
use super::super::client::{list_field, path_segment, with_query};
use super::super::word::{word, word_of};
use super::{filter, show};
use crate::exit::{CliError, FailureCode};
use crate::output::{Column, OutputFormat};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("QUEUE", "/queue"),
    ("KIND", "/kind"),
    ("ATTEMPT", "/attempt"),
    ("DUE", "/due"),
    ("WORKER", "/worker"),
    ("ERROR", "/history/0/error"),
];

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Filter, such as 'state:dead kind:mail* error~timeout age>1h'
    filter: Vec<String>,
    /// Only jobs in this state: waiting, scheduled, ready, running, done, dead, cancelled
    #[arg(long, value_parser = word::<State>)]
    state: Option<State>,
    /// Only jobs in this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Maximum number of jobs
    #[arg(short, long = "limit", value_name = "N", default_value = "100")]
    n: usize,
}

pub(crate) fn get(
    mut call: CommandContext,
    id: &str,
    notes: bool,
    why: bool,
) -> anyhow::Result<ExitCode> {
    let path = path(id);
    let text = call.client.get_text(&path)?;
    if call.out.format() != OutputFormat::Table && !notes && !why {
        // Printed as the server wrote it, so that the payload is not re-encoded.
        call.out.json_line(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut job: Value = serde_json::from_str(&text)?;
    if notes {
        job["notes"] = call.client.get(&format!("{path}/notes"))?;
    }
    let mut reasons = None;
    if why {
        let explained = call.client.get(&format!("{path}/explain"))?;
        reasons = Some(explained.get("reasons").cloned().unwrap_or_default());
    }
    match call.out.format() {
        OutputFormat::Table => {
            if let Some(reasons) = reasons {
                job["why"] = joined_details(&reasons);
            }
            show::print(&mut call.out, job)?;
        }
        OutputFormat::Json | OutputFormat::Jsonl => {
            if let Some(reasons) = reasons {
                job["reasons"] = reasons;
            }
            call.out.object(&job, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const DIFF_COLUMNS: &[Column] =
    &[("FIELD", "/field"), ("CHANGE", "/change"), ("GOOD", "/good"), ("VALUE", "/value")];

/// Prints the fields that differ from the last good job. A table ends with the runs.
pub(crate) fn diff(mut call: CommandContext, id: &str) -> anyhow::Result<ExitCode> {
    let diff = call.client.get(&format!("{}/diff", path(id)))?;
    if call.out.format() != OutputFormat::Table {
        call.out.object(&diff, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    let good = diff.get("good").filter(|good| good.is_object());
    let Some(good) = good else {
        call.out.confirm("no done job of its queue and kind is stored")?;
        return Ok(ExitCode::SUCCESS);
    };
    call.out.rows(DIFF_COLUMNS, &list_field(diff.clone(), "fields"))?;
    for (name, run) in [("this run", diff.get("run")), ("good run", Some(good))] {
        if let Some(run) = run {
            let text = |field: &str| run.get(field).and_then(Value::as_str).unwrap_or("-");
            let [job, ended, worker, version] = ["job", "ended_at", "worker", "version"].map(text);
            let line =
                format!("{name}: job {job} ended {ended}, worker {worker}, version {version}");
            call.out.line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The details of all reasons as one text.
fn joined_details(reasons: &Value) -> Value {
    let details = reasons.as_array().into_iter().flatten().filter_map(|one| one.get("detail"));
    details.filter_map(Value::as_str).collect::<Vec<_>>().join("; ").into()
}

/// Page size.
const PAGE: usize = 500;

pub(crate) fn ls(mut call: CommandContext, ls: &ListArgs) -> anyhow::Result<ExitCode> {
    let filter = filter::joined(&ls.filter)?;
    let (mut jobs, mut cursor) = (Vec::new(), None);
    while jobs.len() < ls.n {
        let limit = PAGE.min(ls.n - jobs.len());
        let query = [
            ("q", filter.clone()),
            ("state", ls.state.map(|state| word_of(&state))),
            ("queue", ls.queue.clone()),
            ("kind", ls.kind.clone()),
            ("cursor", cursor),
            ("limit", Some(limit.to_string())),
        ];
        let page = call.client.get(&with_query("/v1/jobs", &query))?;
        if let Some(Value::Array(some)) = page.get("jobs") {
            jobs.extend(some.iter().cloned());
        }
        cursor = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    call.out.rows(COLUMNS, &jobs)?;
    Ok(ExitCode::SUCCESS)
}

/// Maximum wait per call, in milliseconds.
const MAX_WAIT_MS: u64 = 30_000;

pub(crate) fn wait(
    mut call: CommandContext,
    id: &str,
    at_most: Period,
) -> anyhow::Result<ExitCode> {
    let (text, mut answer) = wait_for_end(&mut call, id, at_most)?;
    let is_done = answer.get("state") == Some(&json!("done"));
    match call.out.format() {
        OutputFormat::Table => {
            show::decode(&mut answer, "result");
            call.out.object(&answer, &["id", "ended", "state", "result", "error"])?;
        }
        OutputFormat::Json | OutputFormat::Jsonl => call.out.json_line(&text)?,
    }
    Ok(if is_done { ExitCode::SUCCESS } else { FailureCode::Failed.into() })
}

/// Prints the result of a job: unmodified, or in JSON formats the response.
pub(crate) fn result(
    mut call: CommandContext,
    id: &str,
    at_most: Period,
) -> anyhow::Result<ExitCode> {
    let (response, answer) = wait_for_end(&mut call, id, at_most)?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let given = show::decoded(&answer, "result")
        .or_else(|| answer.get("result").map(|json| format!("{json}\n").into()));
    match (text("state").as_str(), given) {
        ("done", Some(given)) => {
            match call.out.format() {
                OutputFormat::Table => call.out.bytes(&given)?,
                OutputFormat::Json | OutputFormat::Jsonl => call.out.json_line(&response)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        ("done", None) => {
            let why =
                format!("job {id} returned no result, or it was not kept; see `--keep-result`");
            Err(CliError::new(FailureCode::NotFound, why).into())
        }
        ("", _) => {
            Err(CliError::new(FailureCode::Failed, format!("job {id} has not ended")).into())
        }
        (state, _) => {
            let why = match text("error").as_str() {
                "" => format!("job {id} is {state}"),
                error => format!("job {id} is {state}: {error}"),
            };
            Err(CliError::new(FailureCode::Failed, why).into())
        }
    }
}

/// Waits for the end of a job. Returns the response as text and parsed; the job may not have ended in time.
fn wait_for_end(
    call: &mut CommandContext,
    id: &str,
    at_most: Period,
) -> anyhow::Result<(String, Value)> {
    let mut left = at_most.0.as_millis();
    loop {
        let some = left.min(MAX_WAIT_MS);
        let query = [("wait", Some(format!("{some}ms")))];
        let text = call.client.get_text(&with_query(&format!("{}/result", path(id)), &query))?;
        let answer: Value = serde_json::from_str(&text)?;
        left -= some;
        if answer.get("ended") == Some(&Value::Bool(true)) || left == 0 {
            return Ok((text, answer));
        }
    }
}

pub(super) fn path(id: &str) -> String {
    format!("/v1/jobs/{}", path_segment(id))
}
