//! `crore handler`: ls, get, set, rm.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use crore_core::handler::DEFAULT_QUEUE;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{Client, list, segment};
use super::{Call, said};
use crate::exit::{Failure, Why, eprint_or_ignore};

const EXAMPLES: &str = "\
Examples:
  crore handler set hello command '{\"program\": \"echo\", \"args\": [\"hello\"]}' --keep-result 1h
  crore handler set fetch http '{\"url\": \"https://example.com/\", \"method\": \"GET\"}' --next store
  crore handler set nightly command @nightly.json --schedule 'cron 0 3 * * *' --timeout 1h
  crore handler set tell slack '{\"webhook\": \"env:CRORE_SECRET_SLACK\"}'
  crore handler set report command @report.json --on-success tell --on-failure tell

What each runner is told is in the guide: docs/guide/runners.md.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all handlers
    Ls,
    /// Show the handler of a kind
    Get {
        /// The kind
        kind: String,
    },
    /// Say how jobs of a kind are run; it holds at once
    #[command(after_help = EXAMPLES)]
    Set(Box<Set>),
    /// Remove the handler of a kind; its jobs wait for a worker then
    Rm {
        /// The kind
        kind: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The kind
    kind: String,
    /// The sort of runner: command, http, grpc, docker, plugin, slack
    runner: String,
    /// What the runner is told: a JSON object, or @FILE
    settings: Option<String>,
    /// Where its jobs wait, and by that the channel whose runners run them [default: default]
    #[arg(long)]
    queue: Option<String>,
    /// How often a job is tried
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// How long a run may take
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
    /// Keep results so long, of jobs that are done and of those that are dead
    #[arg(long, value_name = "SPAN")]
    keep_result: Option<String>,
    /// Keep runners and use them again
    #[arg(long)]
    pooled: bool,
    /// Give each item that comes out to a job of this kind; may be given several times
    #[arg(long, value_name = "KIND")]
    next: Vec<String>,
    /// Tell a job of this kind when one is done, as slack needs it; may be given several times
    #[arg(long, value_name = "KIND")]
    on_success: Vec<String>,
    /// Tell a job of this kind when one is dead; may be given several times
    #[arg(long, value_name = "KIND")]
    on_failure: Vec<String>,
    /// Push a job again when it has ended, whole intervals after it was first due
    #[arg(long, value_name = "SPAN")]
    every: Option<String>,
    /// Let the clock push jobs: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`
    #[arg(long, value_name = "TIMING")]
    schedule: Option<String>,
}

pub(crate) fn run(mut call: Call, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ls => {
            let all = call.client.get("/v1/handlers")?;
            for kind in all["unreadable"].as_array().into_iter().flatten() {
                eprint_or_ignore(&format!(
                    "note: the handler of {kind} cannot be read, so nobody runs its jobs: set it anew, or remove it\n"
                ));
            }
            let handlers = list(all, "handlers");
            let columns = [
                ("KIND", "/kind"),
                ("ID", "/id"),
                ("RUNNER", "/runner"),
                ("QUEUE", "/queue"),
                ("TIMEOUT", "/timeout"),
                ("NEXT AT", "/next_at"),
                ("SETTINGS", "/settings"),
            ];
            call.out.rows(&columns, &handlers)?;
        }
        Command::Get { kind } => {
            let handler = call.client.get(&path(&kind)?)?;
            call.out.one(&handler, &["kind", "id", "runner", "settings", "queue"])?;
        }
        Command::Set(set) => {
            let kind = set.kind.clone();
            let after: BTreeSet<_> = [&set.next, &set.on_success, &set.on_failure]
                .into_iter()
                .flatten()
                .cloned()
                .collect();
            refuse_items(&mut call.client, &set.next)?;
            call.client.call(&Method::PUT, &path(&kind)?, &body(*set)?)?;
            call.out.did(&format!("jobs of the kind `{kind}` have a handler"))?;
            // It is set, whatever else could not be seen: who may define need not be allowed to look.
            for line in slips(&mut call.client, &kind, &after).unwrap_or_default() {
                eprint_or_ignore(&format!("note: {line}\n"));
            }
        }
        Command::Rm { kind } => {
            let path = path(&kind)?;
            // Removing what is not there goes well, so that it can be tried again; people want to know.
            let missing = call.client.get(&path).is_err_and(|error| {
                let failure = error.downcast_ref::<Failure>();
                failure.is_some_and(|failure| failure.why == Why::NotFound)
            });
            if missing {
                let why =
                    format!("jobs of the kind `{kind}` have no handler that could be removed");
                return Err(Failure::new(Why::NotFound, why).into());
            }
            call.client.delete(&path)?;
            call.out.did(&format!("jobs of the kind `{kind}` have no handler now"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The handler as the API takes it.
fn body(set: Set) -> anyhow::Result<Value> {
    let settings = set.settings.as_deref().map(settings).transpose()?;
    let kept = |keep: String| json!({ "success": true, "failure": true, "keep": keep });
    let follow = |kinds: Vec<String>, gives: &str| -> Vec<Value> {
        kinds.into_iter().map(|kind| json!({ "kind": kind, "gives": gives })).collect()
    };
    let next = [follow(set.next, "items"), follow(set.on_success, "summary")].concat();
    Ok(said([
        ("runner", Some(set.runner.into())),
        ("settings", settings),
        ("queue", set.queue.map(Into::into)),
        ("retry", set.attempts.map(|n| json!({ "max_attempts": n }))),
        ("timeout", set.timeout.map(Into::into)),
        ("results", set.keep_result.map(kept)),
        ("pooled", Some(set.pooled.into())),
        ("next", Some(next.into())),
        ("on_failure", Some(follow(set.on_failure, "summary").into())),
        ("every", set.every.map(Into::into)),
        ("schedule", set.schedule.map(|timing| json!({ "timing": timing }))),
    ]))
}

fn settings(text: &str) -> anyhow::Result<Value> {
    let wrong = |why: String| Failure::new(Why::Usage, why);
    let read = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot read `{path}`: {error}")))?,
        None => text.to_owned(),
    };
    let settings: Value = serde_json::from_str(&read)
        .map_err(|error| wrong(format!("the settings `{text}` are not JSON: {error}")))?;
    match settings {
        Value::Object(_) => Ok(settings),
        _ => Err(wrong(format!("the settings `{text}` are not a JSON object")).into()),
    }
}

/// The runner that is told how a job ended, and can make nothing of what came out.
const TOLD: &str = "slack";

/// Refuses to give what comes out to a handler that has to be told how a job ended.
fn refuse_items(client: &mut Client, next: &[String]) -> anyhow::Result<()> {
    if next.is_empty() {
        return Ok(());
    }
    // Who may define need not be allowed to look; then the job that is given it says so.
    let answer = client.get("/v1/handlers").unwrap_or_default();
    let handlers = list(answer, "handlers");
    let is_told =
        |kind: &&String| handlers.iter().any(|of| of["kind"] == **kind && of["runner"] == TOLD);
    match next.iter().find(is_told) {
        None => Ok(()),
        Some(kind) => {
            let why = format!(
                "`{kind}` is run by {TOLD}, which has to be told how a job ended and cannot be given what came out: \
                 say `--on-success {kind}` in place of `--next {kind}`"
            );
            Err(Failure::new(Why::Usage, why).into())
        }
    }
}

/// The states of a job that waits, for whatever.
const WAIT: [&str; 3] = ["waiting", "scheduled", "ready"];

/// What whoever has set a handler may not have meant: what comes next has none, or its jobs wait elsewhere.
fn slips(client: &mut Client, kind: &str, after: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let handlers = list(client.get("/v1/handlers")?, "handlers");
    let of = |kind: &str| handlers.iter().find(|handler| handler["kind"] == kind);
    let missing = after.iter().filter(|kind| of(kind).is_none());
    let mut lines: Vec<_> = missing
        .map(|kind| {
            format!("there is no handler `{kind}` yet: nothing is passed on to it until there is")
        })
        .collect();
    let gives_items = |from: &&Value| {
        let next = from["next"].as_array().into_iter().flatten();
        next.into_iter().any(|follow| follow["kind"] == kind && follow["gives"] == "items")
    };
    let is_told = of(kind).is_some_and(|handler| handler["runner"] == TOLD);
    lines.extend(handlers.iter().filter(|from| is_told && gives_items(from)).map(|from| {
        let from = from["kind"].as_str().unwrap_or_default();
        format!(
            "`{from}` gives it what comes out, and {TOLD} has to be told how a job ended: set `{from}` anew, with \
             `--on-success {kind}` in place of `--next {kind}`"
        )
    }));
    let queue = of(kind).and_then(|handler| handler["queue"].as_str()).unwrap_or(DEFAULT_QUEUE);
    let mut elsewhere: BTreeMap<String, u64> = BTreeMap::new();
    for count in list(client.get("/v1/counts")?, "counts") {
        let waits = count["state"].as_str().is_some_and(|state| WAIT.contains(&state));
        if let (Some(at), Some(n)) = (count["queue"].as_str(), count["n"].as_u64())
            && waits
            && count["kind"] == kind
            && at != queue
        {
            *elsewhere.entry(at.to_owned()).or_default() += n;
        }
    }
    lines.extend(elsewhere.into_iter().map(|(at, n)| {
        let (jobs, wait) = if n == 1 { ("job", "waits") } else { ("jobs", "wait") };
        format!(
            "{n} {jobs} of this kind {wait} in the queue `{at}`, which is not the handler's: only a channel `{at}` \
             runs what is there; move it with `crore job edit ID --queue {queue}`, or push again"
        )
    }));
    Ok(lines)
}

fn path(kind: &str) -> anyhow::Result<String> {
    match kind {
        "" => Err(Failure::new(Why::Usage, "a kind cannot be empty").into()),
        kind => Ok(format!("/v1/handlers/{}", segment(kind))),
    }
}
