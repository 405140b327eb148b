//! `crore handler`: ls, get, set, rm.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use crore_core::code::excerpt;
use crore_core::handler::DEFAULT_QUEUE;
use crore_wire::units::Period;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{ApiClient, list_field, path_segment};
use super::job::RetryArgs;
use super::{CommandContext, object_of};
use crate::exit::{CliError, FailureCode, eprint_or_ignore};

const EXAMPLES: &str = "\
Examples:
  crore handler set hello command '{\"program\": \"echo\", \"args\": [\"hello\"]}' --keep-result 1h
  crore handler set fetch http '{\"url\": \"https://example.com/\", \"method\": \"GET\"}' --next store
  crore handler set nightly command @nightly.json --schedule 'cron 0 3 * * *' --timeout 1h
  crore handler set tell slack '{\"webhook\": \"env:CRORE_SECRET_SLACK\"}'
  crore handler set report command @report.json --on-success tell --on-failure tell

Runner settings are described in docs/guide/runners.md.";

#[derive(Debug, Subcommand)]
pub(crate) enum HandlerCommand {
    /// List handlers
    Ls,
    /// Show the handler of a kind
    Get {
        /// Kind of the jobs
        kind: String,
    },
    /// Create or replace the handler of a kind; takes effect immediately
    #[command(after_help = EXAMPLES)]
    Set(Box<HandlerArgs>),
    /// Delete the handler of a kind; its jobs then wait for a worker
    Rm {
        /// Kind of the jobs
        kind: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HandlerArgs {
    /// Kind of the jobs
    kind: String,
    /// Runner: command, http, grpc, docker, plugin, slack
    runner: String,
    /// Settings of the runner: a JSON object, or @FILE
    settings: Option<String>,
    /// Queue of its jobs; a host must serve it (see `crore serve --channel`) [default: the queue `default`]
    #[arg(long)]
    queue: Option<String>,
    #[command(flatten)]
    retry: RetryArgs,
    /// Timeout of each run [default: none]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Period>,
    /// Retention of the results of done and dead jobs [default: not kept]
    #[arg(long, value_name = "DURATION")]
    keep_result: Option<Period>,
    /// Keep runner instances in a pool and reuse them
    #[arg(long)]
    pooled: bool,
    /// When a job is done, push a job of this kind for each item of the result; may be repeated
    #[arg(long, value_name = "KIND")]
    next: Vec<String>,
    /// When a job is done, push a job of this kind whose payload is a summary of the run, for example for a slack
    /// handler; may be repeated
    #[arg(long, value_name = "KIND")]
    on_success: Vec<String>,
    /// When a job is dead, push a job of this kind whose payload is a summary of the run, for example for a slack
    /// handler; may be repeated
    #[arg(long, value_name = "KIND")]
    on_failure: Vec<String>,
    /// Repeat interval: when a job ends, it is pushed again, due a whole number of intervals after its first due time
    #[arg(long, value_name = "DURATION")]
    every: Option<Period>,
    /// Schedule that pushes jobs of this kind: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`
    #[arg(long, value_name = "TIMING")]
    schedule: Option<String>,
}

pub(crate) fn run(mut call: CommandContext, command: HandlerCommand) -> anyhow::Result<ExitCode> {
    match command {
        HandlerCommand::Ls => {
            let all = call.client.get("/v1/handlers")?;
            for kind in all["unreadable"].as_array().into_iter().flatten() {
                eprint_or_ignore(&format!(
                    "note: the handler of {kind} cannot be read, so its jobs do not run; set it again or delete it\n"
                ));
            }
            let handlers = list_field(all, "handlers");
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
        HandlerCommand::Get { kind } => {
            let handler = call.client.get(&path(&kind)?)?;
            call.out.object(&handler, &["kind", "id", "runner", "settings", "queue"])?;
        }
        HandlerCommand::Set(set) => {
            let kind = set.kind.clone();
            let after: BTreeSet<_> = [&set.next, &set.on_success, &set.on_failure]
                .into_iter()
                .flatten()
                .cloned()
                .collect();
            check_next(&mut call.client, &set.next)?;
            call.client.call(&Method::PUT, &path(&kind)?, &body(*set)?)?;
            call.out.confirm(&format!("handler of kind `{kind}` set"))?;
            // The handler is set even if the notes fail: a token with scope `define` may lack scope `read`.
            for line in find_mistakes(&mut call.client, &kind, &after).unwrap_or_default() {
                eprint_or_ignore(&format!("note: {line}\n"));
            }
        }
        HandlerCommand::Rm { kind } => {
            let path = path(&kind)?;
            // Deleting a missing handler succeeds on the server, so that a delete can be retried; here it is an error.
            let missing = call.client.get(&path).is_err_and(|error| {
                let failure = error.downcast_ref::<CliError>();
                failure.is_some_and(|failure| failure.code == FailureCode::NotFound)
            });
            if missing {
                let why = format!("kind `{kind}` has no handler");
                return Err(CliError::new(FailureCode::NotFound, why).into());
            }
            call.client.delete(&path)?;
            call.out.confirm(&format!("handler of kind `{kind}` deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The handler as a request body.
fn body(set: HandlerArgs) -> anyhow::Result<Value> {
    let settings = set.settings.as_deref().map(settings).transpose()?;
    let kept = |keep: Period| json!({ "success": true, "failure": true, "keep": keep });
    let follow = |kinds: Vec<String>, gives: &str| -> Vec<Value> {
        kinds.into_iter().map(|kind| json!({ "kind": kind, "gives": gives })).collect()
    };
    let next = [follow(set.next, "items"), follow(set.on_success, "summary")].concat();
    Ok(object_of([
        ("runner", Some(set.runner.into())),
        ("settings", settings),
        ("queue", set.queue.map(Into::into)),
        ("retry", set.retry.object()),
        ("timeout", set.timeout.map(|timeout| json!(timeout))),
        ("results", set.keep_result.map(kept)),
        ("pooled", Some(set.pooled.into())),
        ("next", Some(next.into())),
        ("on_failure", Some(follow(set.on_failure, "summary").into())),
        ("every", set.every.map(|every| json!(every))),
        ("schedule", set.schedule.map(|timing| json!({ "timing": timing }))),
    ]))
}

fn settings(text: &str) -> anyhow::Result<Value> {
    let wrong = |why: String| CliError::new(FailureCode::Usage, why);
    let read = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot read `{path}`: {error}")))?,
        None => text.to_owned(),
    };
    let shown = excerpt(text);
    let settings: Value = serde_json::from_str(&read).map_err(|error| match text == read {
        // Without the position: the message shows the argument.
        true => wrong(format!("the settings `{shown}` are not JSON")),
        false => wrong(format!("the settings in `{shown}` are not JSON: {error}")),
    })?;
    match settings {
        Value::Object(_) => Ok(settings),
        _ => Err(wrong(format!("the settings `{shown}` are not a JSON object")).into()),
    }
}

/// The runner that needs a summary of how a job ended and cannot use result items.
const NEEDS_SUMMARY: &str = "slack";

/// Refuses `--next` to a handler that needs summaries.
fn check_next(client: &mut ApiClient, next: &[String]) -> anyhow::Result<()> {
    if next.is_empty() {
        return Ok(());
    }
    // A token with scope `define` may lack scope `read`; the job itself then fails with this message.
    let answer = client.get("/v1/handlers").unwrap_or_default();
    let handlers = list_field(answer, "handlers");
    let needs_summary = |kind: &&String| {
        handlers.iter().any(|of| of["kind"] == **kind && of["runner"] == NEEDS_SUMMARY)
    };
    match next.iter().find(needs_summary) {
        None => Ok(()),
        Some(kind) => {
            let why = format!(
                "`{kind}` is run by {NEEDS_SUMMARY}, which needs a summary of how a job ended and not its result: \
                 use `--on-success {kind}` instead of `--next {kind}`"
            );
            Err(CliError::new(FailureCode::Usage, why).into())
        }
    }
}

/// States of jobs that have not started.
const NOT_STARTED: [&str; 3] = ["waiting", "scheduled", "ready"];

/// Notes about likely mistakes: follow-up kinds without a handler, items sent to a handler that needs summaries, or
/// jobs waiting in another queue.
fn find_mistakes(
    client: &mut ApiClient,
    kind: &str,
    after: &BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    let handlers = list_field(client.get("/v1/handlers")?, "handlers");
    let of = |kind: &str| handlers.iter().find(|handler| handler["kind"] == kind);
    let missing = after.iter().filter(|kind| of(kind).is_none());
    let mut lines: Vec<_> = missing
        .map(|kind| {
            format!(
                "kind `{kind}` has no handler yet: its follow-up jobs wait in the queue `{kind}` for an external worker"
            )
        })
        .collect();
    let gives_items = |from: &&Value| {
        let next = from["next"].as_array().into_iter().flatten();
        next.into_iter().any(|follow| follow["kind"] == kind && follow["gives"] == "items")
    };
    let needs_summary = of(kind).is_some_and(|handler| handler["runner"] == NEEDS_SUMMARY);
    lines.extend(handlers.iter().filter(|from| needs_summary && gives_items(from)).map(|from| {
        let from = from["kind"].as_str().unwrap_or_default();
        format!(
            "the handler of `{from}` passes its result items to `{kind}`, but {NEEDS_SUMMARY} needs a summary: set `{from}` again with \
             `--on-success {kind}` instead of `--next {kind}`"
        )
    }));
    let queue = of(kind).and_then(|handler| handler["queue"].as_str()).unwrap_or(DEFAULT_QUEUE);
    let mut elsewhere: BTreeMap<String, u64> = BTreeMap::new();
    for count in list_field(client.get("/v1/counts")?, "counts") {
        let waits = count["state"].as_str().is_some_and(|state| NOT_STARTED.contains(&state));
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
             runs them; move them with `crore job edit ID --queue {queue}`, or push them again"
        )
    }));
    Ok(lines)
}

fn path(kind: &str) -> anyhow::Result<String> {
    match kind {
        "" => Err(CliError::new(FailureCode::Usage, "a kind cannot be empty").into()),
        kind => Ok(format!("/v1/handlers/{}", path_segment(kind))),
    }
}
