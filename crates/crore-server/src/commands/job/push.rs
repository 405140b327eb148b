//! `crore job push`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::super::Call;
use super::super::client::list;
use super::NewJob;
use super::lines::{Job, Line, Lines, Numbered};
use crate::exit::{Why, eprint_or_ignore};
use crate::out::Format;

#[derive(Debug, Args)]
pub(crate) struct Push {
    #[command(flatten)]
    job: NewJob,
    /// Print ids alone
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(call: Call, push: Push) -> anyhow::Result<ExitCode> {
    let line = match (push.job.kind.as_str(), push.job.payload.as_deref()) {
        ("-", None) => Line::Job,
        (_, Some("-")) => Line::Payload(Box::new(push.job)),
        _ => return one(call, push),
    };
    many(call, Lines::new(line), push.quiet)
}

fn one(mut call: Call, push: Push) -> anyhow::Result<ExitCode> {
    let answer = call.client.post("/v1/jobs", &push.job.body()?)?;
    let id = answer.pointer("/id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_new = answer.pointer("/status") == Some(&json!("new"));
    match (push.quiet, call.out.format()) {
        (true, _) => call.out.line(&id)?,
        (false, Format::Table) if is_new => call.out.line(&format!("pushed job {id}"))?,
        (false, Format::Table) => call.out.line(&format!("job {id} was there already"))?,
        (false, Format::Json | Format::Jsonl) => call.out.one(&answer, &[])?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of many.
#[derive(Debug, Default)]
struct Tally {
    new: u64,
    duplicate: u64,
    refused: u64,
}

fn many(mut call: Call, mut lines: Lines, quiet: bool) -> anyhow::Result<ExitCode> {
    let bar = ProgressBar::no_length().with_message("jobs pushed");
    let mut tally = Tally::default();
    loop {
        let batch = lines.batch().map_err(|error| error.context(tally.said()))?;
        lines.take_faults().iter().for_each(|(line, why)| tally.refuse(*line, why));
        if batch.is_empty() {
            break;
        }
        let jobs: Vec<&Job> = batch.iter().map(|(_, job)| job).collect();
        let answer = call.client.post("/v1/jobs", &BTreeMap::from([("jobs", jobs)]));
        let answers = list(answer.map_err(|error| error.context(tally.said()))?, "jobs");
        for (one, answer) in batch.iter().zip(&answers) {
            tally.add(one, answer);
            match (quiet, call.out.format(), answer.pointer("/id").and_then(Value::as_str)) {
                (true, _, Some(id)) => call.out.line(id)?,
                (false, Format::Json | Format::Jsonl, _) => call.out.line(&answer.to_string())?,
                _ => {}
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    if !quiet && call.out.format() == Format::Table {
        call.out.line(&tally.said())?;
    }
    Ok(if tally.refused == 0 { ExitCode::SUCCESS } else { Why::Failed.into() })
}

impl Tally {
    /// Counts an answer; a refusal is told at once, with the line.
    fn add(&mut self, (line, _): &Numbered, answer: &Value) {
        match answer.pointer("/status").and_then(Value::as_str) {
            Some("new") => self.new += 1,
            Some("duplicate") => self.duplicate += 1,
            _ => {
                let part = |name: &str| answer.pointer(name).and_then(Value::as_str).unwrap_or("");
                // Its place in the batch is ours to know; people count lines.
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

    fn said(&self) -> String {
        let mut text = match self.new {
            1 => "pushed 1 job".to_owned(),
            n => format!("pushed {n} jobs"),
        };
        if self.duplicate > 0 {
            text += &format!(", {} were there already", self.duplicate);
        }
        if self.refused > 0 {
            text += &format!(", {} refused", self.refused);
        }
        text
    }
}
