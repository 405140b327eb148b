//! `crore job retry | cancel | rm | edit`: changes jobs by id, or all that match a filter.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use crore_wire::api::enums::State;
use crore_wire::units::{Moment, Period};
use hyper::Method;
use serde_json::{Map, Value, json};

use super::super::client::{path_segment, with_query};
use super::super::word::word;
use super::super::{CommandContext, object_of};
use super::filter;
use super::inspect::path;
use crate::exit::{CliError, FailureCode, eprint_or_ignore};
use crate::output::{OutputFormat, spinner};

#[derive(Debug, Args)]
pub(crate) struct JobSelection {
    /// Job ids, or a filter such as 'state:dead error~timeout'
    #[arg(value_name = "ID | FILTER")]
    which: Vec<String>,
    /// Select jobs in this state; may be repeated
    #[arg(long, value_parser = word::<State>)]
    state: Vec<State>,
    /// Select jobs in this queue
    #[arg(long)]
    queue: Option<String>,
    /// Select jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Select jobs with this label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::pair)]
    label: Vec<(String, String)>,
    /// Select jobs pushed before this time
    #[arg(long, value_name = "TIME")]
    pushed_before: Option<Moment>,
    /// Select all jobs
    #[arg(long)]
    all: bool,
    /// Only print how many jobs would be changed
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation; required if there is no terminal
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// Job id
    id: String,
    /// New queue
    #[arg(long)]
    queue: Option<String>,
    /// New priority; smaller runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// New earliest start, such as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    due: Option<Moment>,
    /// New earliest start, as a delay from now, such as 10m
    #[arg(long, value_name = "DURATION")]
    delay: Option<Period>,
}

impl JobSelection {
    /// Refuses flags that select jobs beside ids.
    fn refuse_flags(&self) -> Result<(), CliError> {
        let has_flags = !self.state.is_empty()
            || self.queue.is_some()
            || self.kind.is_some()
            || !self.label.is_empty()
            || self.pushed_before.is_some()
            || self.all
            || self.dry_run;
        if has_flags {
            let message = "ids cannot be combined with flags that select jobs, or with `--dry-run`";
            return Err(CliError::new(FailureCode::Usage, message));
        }
        Ok(())
    }
}

pub(crate) fn run(
    call: CommandContext,
    act: &str,
    which: JobSelection,
) -> anyhow::Result<ExitCode> {
    let is_id = |word: &String| !word.contains([':', '=', '~', '<', '>']);
    if !which.which.is_empty() && which.which.iter().all(is_id) {
        which.refuse_flags()?;
        return act_on_ids(call, act, &which.which);
    }
    let has_condition = !which.which.is_empty()
        || !which.state.is_empty()
        || which.queue.is_some()
        || which.kind.is_some()
        || !which.label.is_empty()
        || which.pushed_before.is_some();
    if !has_condition && !which.all {
        let message = "no jobs selected: give ids or a filter, or select jobs with `--state`, `--queue`, `--kind`, \
                       `--label`, `--pushed-before` or `--all`";
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    act_on_matching(call, &which.request(act)?)
}

/// Acts on each job in turn, and stops at the first error.
fn act_on_ids(mut call: CommandContext, act: &str, ids: &[String]) -> anyhow::Result<ExitCode> {
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

/// The response for one job. A job without a state has been deleted.
fn with_state(answer: Value, id: &str) -> Value {
    let mut answer = if answer.is_object() { answer } else { json!({ "id": id }) };
    if answer.get("state").is_none() {
        answer["state"] = "gone".into();
    }
    answer
}

/// An action on all jobs that match.
pub(super) struct BulkRequest<'a> {
    pub(super) act: &'a str,
    pub(super) filter: Value,
    /// The edits of a replay.
    pub(super) replay: Option<Value>,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
}

impl BulkRequest<'_> {
    fn body(&self, dry_run: bool) -> Value {
        object_of([
            ("act", Some(self.act.into())),
            ("filter", Some(self.filter.clone())),
            ("replay", self.replay.clone()),
            ("dry_run", Some(dry_run.into())),
        ])
    }
}

impl JobSelection {
    fn request(self, act: &str) -> anyhow::Result<BulkRequest<'_>> {
        let labels: Map<_, _> = self.label.into_iter().map(|(k, v)| (k, v.into())).collect();
        let filter = object_of([
            ("q", filter::joined(&self.which)?.map(Into::into)),
            ("states", Some(json!(self.state))),
            ("queue", self.queue.map(Into::into)),
            ("kind", self.kind.map(Into::into)),
            ("labels", Some(Value::Object(labels))),
            ("pushed_before", self.pushed_before.map(|time| json!(time))),
            ("all", Some(self.all.into())),
        ]);
        Ok(BulkRequest { act, filter, replay: None, dry_run: self.dry_run, yes: self.yes })
    }
}

/// Counts the matching jobs, asks for confirmation, and acts on them.
pub(super) fn act_on_matching(
    mut call: CommandContext,
    request: &BulkRequest<'_>,
) -> anyhow::Result<ExitCode> {
    let act = request.act;
    call.client.use_long_timeout();
    let counting = spinner("counting jobs");
    let would = call.client.post(ACT, &request.body(true))?;
    counting.finish_and_clear();
    let n = would.pointer("/done").and_then(Value::as_u64).unwrap_or(0);
    if request.dry_run {
        return print_dry_run(call, act, would);
    }
    if !request.yes && n > 0 {
        confirm(&format!("{act} {}", jobs(n)))?;
    }
    let started = call.client.post(OPERATIONS, &request.body(false))?;
    let ended = wait_for_operation(&mut call, started)?;
    print_result(call, &ended)
}

/// Shows the progress of an operation until it ends. Interrupting the command does not stop the operation.
fn wait_for_operation(call: &mut CommandContext, mut operation: Value) -> anyhow::Result<Value> {
    let id = operation.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = format!("{OPERATIONS}/{}", path_segment(&id));
    let path = with_query(&path, &[("wait", Some(PROGRESS_EVERY.to_owned()))]);
    let working = spinner("working");
    while operation.get("state") == Some(&json!("running")) {
        let number = |name: &str| operation.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (changed, scanned) = (number("changed"), number("scanned"));
        working.set_message(format!("operation {id}: {changed} changed, {scanned} examined"));
        operation = call.client.get(&path)?;
    }
    working.finish_and_clear();
    Ok(operation)
}

/// Prints the counts of an operation. It is an error if it did not visit all jobs.
fn print_result(mut call: CommandContext, operation: &Value) -> anyhow::Result<ExitCode> {
    let number = |name: &str| operation.get(name).cloned().unwrap_or_else(|| 0.into());
    let tally = json!({
        "seen": number("scanned"), "matched": number("matched"), "done": number("changed"),
        "operation": operation.get("id"),
    });
    call.out.object(&tally, TALLY)?;
    let text = |name: &str| operation.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("state") {
        "done" => Ok(ExitCode::SUCCESS),
        state => {
            let why = format!("the operation is {state} {}", text("error"));
            Err(CliError::new(FailureCode::Failed, why.trim_end()).into())
        }
    }
}

const ACT: &str = "/v1/jobs/act";
const OPERATIONS: &str = "/v1/operations";
const TALLY: &[&str] = &["seen", "matched", "done"];
/// How often the progress of an operation is shown.
const PROGRESS_EVERY: &str = "500ms";

/// Prints what an action would do.
fn print_dry_run(
    mut call: CommandContext,
    act: &str,
    mut would: Value,
) -> anyhow::Result<ExitCode> {
    let number = |name: &str| would.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (matched, n) = (number("matched"), number("done"));
    match call.out.format() {
        OutputFormat::Table => {
            let not_affected = match matched.saturating_sub(n) {
                0 => String::new(),
                rest => format!("; {rest} more match, and would stay as they are"),
            };
            call.out.line(&format!("would {act} {}{not_affected}", jobs(n)))?;
        }
        OutputFormat::Json | OutputFormat::Jsonl => {
            would["dry_run"] = true.into();
            call.out.object(&would, TALLY)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn jobs(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

/// Asks for confirmation. Without a terminal nobody can answer, and the command fails.
fn confirm(action: &str) -> anyhow::Result<()> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let message = format!(
            "there is no terminal to confirm this on: set `--yes` to {action}, or `--dry-run` to change nothing"
        );
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    eprint_or_ignore(&format!("{action}? [y/N] "));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(CliError::new(FailureCode::Failed, "cancelled; nothing was changed").into()),
    }
}

pub(crate) fn edit(mut call: CommandContext, edit: EditArgs) -> anyhow::Result<ExitCode> {
    let change = object_of([
        ("queue", edit.queue.map(Into::into)),
        ("priority", edit.priority.map(Into::into)),
        ("due", edit.due.map(|due| json!(due))),
        ("delay", edit.delay.map(|delay| json!(delay))),
    ]);
    if change == json!({}) {
        let message = "nothing to change: set `--queue`, `--priority`, `--due` or `--delay`";
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    let acted = call.client.call(&Method::PATCH, &path(&edit.id), &change)?;
    call.out.rows(&[("ID", "/id"), ("STATE", "/state")], &[acted])?;
    Ok(ExitCode::SUCCESS)
}
