//! `crore job get | ls | wait`.

use std::process::ExitCode;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use crore_wire::words::Period;
use serde_json::{Value, json};

use super::super::Call;
use super::super::client::{segment, with_query};
use crate::exit::{Failure, Why};
use crate::out::{Column, Format};

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

/// What people look for first in a job.
const FIRST: &[&str] =
    &["id", "state", "why", "queue", "kind", "payload", "attempt", "max_attempts", "history"];

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// In this state: waiting, scheduled, ready, running, done, dead, cancelled; all, unless told otherwise
    #[arg(long)]
    state: Option<String>,
    /// In this queue
    #[arg(long)]
    queue: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// At most so many
    #[arg(short, long = "limit", value_name = "N", default_value = "100")]
    n: usize,
}

pub(crate) fn get(mut call: Call, id: &str, notes: bool, why: bool) -> anyhow::Result<ExitCode> {
    let path = path(id);
    let text = call.client.get_text(&path)?;
    if call.out.format() != Format::Table && !notes && !why {
        // As the server wrote it: whatever its payload is, it is not read and written anew.
        call.out.line(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut job: Value = serde_json::from_str(&text)?;
    if notes {
        job["notes"] = call.client.get(&format!("{path}/notes"))?;
    }
    if why {
        let explained = call.client.get(&format!("{path}/explain"))?;
        let reasons = explained.get("reasons").cloned().unwrap_or_default();
        match call.out.format() {
            Format::Table => job["why"] = in_words(&reasons),
            Format::Json | Format::Jsonl => job["reasons"] = reasons,
        }
    }
    call.out.one(&job, FIRST)?;
    Ok(ExitCode::SUCCESS)
}

/// What reasons say to people.
fn in_words(reasons: &Value) -> Value {
    let details = reasons.as_array().into_iter().flatten().filter_map(|one| one.get("detail"));
    details.filter_map(Value::as_str).collect::<Vec<_>>().join("; ").into()
}

/// How many are asked for at once.
const PAGE: usize = 500;

pub(crate) fn ls(mut call: Call, ls: &Ls) -> anyhow::Result<ExitCode> {
    let (mut jobs, mut cursor) = (Vec::new(), None);
    while jobs.len() < ls.n {
        let limit = PAGE.min(ls.n - jobs.len());
        let query = [
            ("state", ls.state.clone()),
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

/// How long one call waits, in milliseconds.
const WAIT: u64 = 30_000;

pub(crate) fn wait(mut call: Call, id: &str, at_most: &str) -> anyhow::Result<ExitCode> {
    let (text, mut answer) = ended(&mut call, id, at_most)?;
    let is_done = answer.get("state") == Some(&json!("done"));
    match call.out.format() {
        Format::Table => {
            let read = bytes(&answer).and_then(|bytes| String::from_utf8(bytes).ok());
            if let (Some(text), Value::Object(fields)) = (read, &mut answer) {
                fields.retain(|name, _| name != "result_base64" && name != "encoding");
                fields.insert("result".to_owned(), text.trim_end().into());
            }
            call.out.one(&answer, &["id", "ended", "state", "result", "error"])?;
        }
        Format::Json | Format::Jsonl => call.out.line(&text)?,
    }
    Ok(if is_done { ExitCode::SUCCESS } else { Why::Failed.into() })
}

/// Writes what a job gave, as it is.
pub(crate) fn result(mut call: Call, id: &str, at_most: &str) -> anyhow::Result<ExitCode> {
    let (_, answer) = ended(&mut call, id, at_most)?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let given =
        bytes(&answer).or_else(|| answer.get("result").map(|json| format!("{json}\n").into()));
    match (text("state").as_str(), given) {
        ("done", Some(given)) => {
            call.out.bytes(&given)?;
            Ok(ExitCode::SUCCESS)
        }
        ("done", None) => {
            let why = format!("job {id} gave nothing, or that is not kept; see `--keep-result`");
            Err(Failure::new(Why::NotFound, why).into())
        }
        ("", _) => Err(Failure::new(Why::Failed, format!("job {id} has not ended")).into()),
        (state, _) => {
            let why = match text("error").as_str() {
                "" => format!("job {id} is {state}"),
                error => format!("job {id} is {state}: {error}"),
            };
            Err(Failure::new(Why::Failed, why).into())
        }
    }
}

/// A result that is not JSON.
fn bytes(answer: &Value) -> Option<Vec<u8>> {
    let text = answer.get("result_base64")?.as_str()?;
    BASE64_STANDARD.decode(text).ok()
}

/// How a job ended, or that it has not in this time: as it was said, and understood.
fn ended(call: &mut Call, id: &str, at_most: &str) -> anyhow::Result<(String, Value)> {
    let at_most: Period = at_most.parse().map_err(|wrong| Failure::new(Why::Usage, wrong))?;
    let mut left = at_most.0.as_millis();
    loop {
        let some = left.min(WAIT);
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
    format!("/v1/jobs/{}", segment(id))
}
