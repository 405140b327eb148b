//! `crore job push`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::super::CommandContext;
use super::super::client::list_field;
use super::lines::{InputJob, JobLines, LineContent, NumberedJob};
use super::new::NewJobArgs;
use crate::exit::{FailureCode, eprint_or_ignore};
use crate::output::OutputFormat;

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    new: NewJobArgs,
    /// Print only ids
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(call: CommandContext, push: PushArgs) -> anyhow::Result<ExitCode> {
    let line = match (push.new.job.kind.as_str(), push.new.job.payload.as_deref()) {
        ("-", None) => LineContent::Job,
        (_, Some("-")) => LineContent::Payload(Box::new(push.new)),
        _ => return push_one(call, push),
    };
    push_lines(call, JobLines::new(line), push.quiet)
}

fn push_one(mut call: CommandContext, push: PushArgs) -> anyhow::Result<ExitCode> {
    let answer = call.client.post("/v1/jobs", &push.new.body()?)?;
    let id = answer.pointer("/id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_new = answer.pointer("/status") == Some(&json!("new"));
    match (push.quiet, call.out.format()) {
        (true, _) => call.out.line(&id)?,
        (false, OutputFormat::Table) if is_new => call.out.line(&format!("pushed job {id}"))?,
        (false, OutputFormat::Table) => call.out.line(&format!("duplicate of job {id}"))?,
        (false, OutputFormat::Json | OutputFormat::Jsonl) => call.out.object(&answer, &[])?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts of the outcomes of a batch push.
#[derive(Debug, Default)]
struct PushTally {
    new: u64,
    duplicate: u64,
    refused: u64,
}

fn push_lines(
    mut call: CommandContext,
    mut lines: JobLines,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let bar = ProgressBar::no_length().with_message("jobs pushed");
    let mut tally = PushTally::default();
    loop {
        let batch = lines.batch().map_err(|error| error.context(tally.summary()))?;
        lines.take_errors().iter().for_each(|(line, why)| tally.refuse(*line, why));
        if batch.is_empty() {
            break;
        }
        let jobs: Vec<&InputJob> = batch.iter().map(|(_, job)| job).collect();
        let answer = call.client.post("/v1/jobs", &BTreeMap::from([("jobs", jobs)]));
        let answers = list_field(answer.map_err(|error| error.context(tally.summary()))?, "jobs");
        for (one, answer) in batch.iter().zip(&answers) {
            tally.add(one, answer);
            match (quiet, call.out.format(), answer.pointer("/id").and_then(Value::as_str)) {
                (true, _, Some(id)) => call.out.line(id)?,
                (false, OutputFormat::Json | OutputFormat::Jsonl, _) => {
                    call.out.json_line(&answer.to_string())?;
                }
                _ => {}
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    if !quiet && call.out.format() == OutputFormat::Table {
        call.out.line(&tally.summary())?;
    }
    Ok(if tally.refused == 0 { ExitCode::SUCCESS } else { FailureCode::Failed.into() })
}

impl PushTally {
    /// Counts a response; a refusal is printed immediately, with its line number.
    fn add(&mut self, (line, _): &NumberedJob, answer: &Value) {
        match answer.pointer("/status").and_then(Value::as_str) {
            Some("new") => self.new += 1,
            Some("duplicate") => self.duplicate += 1,
            _ => {
                let part = |name: &str| answer.pointer(name).and_then(Value::as_str).unwrap_or("");
                // The server names the position in the batch; people count lines.
                let field = part("/problem/field");
                let field = field.split_once("].").map_or(field, |(_, field)| field);
                let detail = part("/problem/detail");
                self.refuse(*line, &format!("{field}: {detail}"));
            }
        }
    }

    fn refuse(&mut self, line: u64, why: &str) {
        self.refused += 1;
        eprint_or_ignore(&format!("line {line}: {why}\n"));
    }

    fn summary(&self) -> String {
        let mut text = match self.new {
            1 => "pushed 1 job".to_owned(),
            n => format!("pushed {n} jobs"),
        };
        if self.duplicate > 0 {
            text += &format!(", {} duplicates", self.duplicate);
        }
        if self.refused > 0 {
            text += &format!(", {} refused", self.refused);
        }
        text
    }
}
