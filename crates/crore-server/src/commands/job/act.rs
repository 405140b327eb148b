//! `crore job retry | cancel | rm | edit`: on jobs by their ids, or on all that match.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use serde_json::{Map, Value, json};

use super::super::{Call, said};
use super::look::path;
use crate::exit::{Failure, Why, eprint_or_ignore};
use crate::out::busy;

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The jobs
    ids: Vec<String>,
    /// Or all in this state; may be given several times
    #[arg(long, conflicts_with = "ids")]
    state: Vec<String>,
    /// Or all in this queue
    #[arg(long, conflicts_with = "ids")]
    queue: Option<String>,
    /// Or all of this kind
    #[arg(long, conflicts_with = "ids")]
    kind: Option<String>,
    /// Or all with this mark; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::pair, conflicts_with = "ids")]
    label: Vec<(String, String)>,
    /// Or all that were pushed before this instant
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    pushed_before: Option<String>,
    /// Or all that there are
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Only say how many there are
    #[arg(long, conflicts_with = "ids")]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// Its id
    id: String,
    /// Move it to this queue
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
}

pub(crate) fn run(call: Call, act: &str, which: Which) -> anyhow::Result<ExitCode> {
    if !which.ids.is_empty() {
        return each(call, act, &which.ids);
    }
    let is_one_meant = !which.state.is_empty()
        || which.queue.is_some()
        || which.kind.is_some()
        || !which.label.is_empty()
        || which.pushed_before.is_some();
    if !is_one_meant && !which.all {
        let message = "name jobs by their ids, or all that match by `--state`, `--queue`, `--kind`, \
                       `--label` or `--pushed-before`, or say `--all`";
        return Err(Failure::new(Why::Usage, message).into());
    }
    matching(call, act, which)
}

/// Each job for itself; the first that cannot be ends it.
fn each(mut call: Call, act: &str, ids: &[String]) -> anyhow::Result<ExitCode> {
    let mut acted = Vec::new();
    for id in ids {
        let answer = match act {
            "delete" => call.client.delete(&path(id))?,
            act => call.client.post(&format!("{}/{act}", path(id)), &json!({}))?,
        };
        acted.push(with_state(answer, id));
    }
    call.out.rows(&[("ID", "/id"), ("STATE", "/state")], &acted)?;
    Ok(ExitCode::SUCCESS)
}

/// An answer about one job. One that has no state is gone.
fn with_state(answer: Value, id: &str) -> Value {
    let mut answer = if answer.is_object() { answer } else { json!({ "id": id }) };
    if answer.get("state").is_none() {
        answer["state"] = "gone".into();
    }
    answer
}

fn matching(mut call: Call, act: &str, which: Which) -> anyhow::Result<ExitCode> {
    let labels: Map<_, _> = which.label.into_iter().map(|(k, v)| (k, v.into())).collect();
    let filter = said([
        ("states", Some(which.state.into())),
        ("queue", which.queue.map(Into::into)),
        ("kind", which.kind.map(Into::into)),
        ("labels", Some(Value::Object(labels))),
        ("pushed_before", which.pushed_before.map(Into::into)),
        ("all", Some(which.all.into())),
    ]);
    let body = |dry_run: bool| json!({ "act": act, "filter": filter, "dry_run": dry_run });
    call.client.be_patient();
    let counting = busy("counting jobs");
    let would = call.client.post(ACT, &body(true))?;
    counting.finish_and_clear();
    let n = would.pointer("/done").and_then(Value::as_u64).unwrap_or(0);
    if which.dry_run {
        call.out.one(&would, TALLY)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !which.yes && n > 0 && !agreed(&format!("{act} {n} jobs? [y/N] "))? {
        return Err(Failure::new(Why::Failed, "nothing was done").into());
    }
    let working = busy("working");
    let done = call.client.post(ACT, &body(false))?;
    working.finish_and_clear();
    call.out.one(&done, TALLY)?;
    Ok(ExitCode::SUCCESS)
}

const ACT: &str = "/v1/jobs/act";
const TALLY: &[&str] = &["seen", "matched", "done"];

/// Asks, if there is somebody to be asked: a script has said what it wants.
fn agreed(question: &str) -> io::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Ok(true);
    }
    eprint_or_ignore(question);
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(crate) fn edit(mut call: Call, edit: Edit) -> anyhow::Result<ExitCode> {
    let change = said([
        ("queue", edit.queue.map(Into::into)),
        ("priority", edit.priority.map(Into::into)),
        ("due", edit.due.map(Into::into)),
        ("delay", edit.delay.map(Into::into)),
    ]);
    if change == json!({}) {
        let message = "say what is to be otherwise: `--queue`, `--priority`, `--due` or `--delay`";
        return Err(Failure::new(Why::Usage, message).into());
    }
    let acted = call.client.call(&Method::PATCH, &path(&edit.id), &change)?;
    call.out.rows(&[("ID", "/id"), ("STATE", "/state")], &[acted])?;
    Ok(ExitCode::SUCCESS)
}
