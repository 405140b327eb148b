//! `crore backup | verify | repair`: work on the data directory of a stopped server; a backup can also be made by a
//! running one.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use crore_store::SystemClock;
use crore_store::embedded::disk::Directory;
use crore_store::embedded::{self, Embedded, Options};
use hyper::Method;
use serde_json::{Value, json};

use super::{CommandContext, store_report};
use crate::exit::{CliError, FailureCode};
use crate::output::{CommandOutput, OutputFormat, spinner};

/// Copies a store into an empty directory.
pub(crate) fn backup(mut out: CommandOutput, data: &Path, to: &Path) -> anyhow::Result<ExitCode> {
    drop(open_existing(data)?);
    let busy = spinner("reading the store");
    let store = Embedded::open(data, Arc::new(SystemClock), Options::default())
        .map_err(|error| with_path(error, data))?;
    busy.set_message("copying");
    let made = store.backup(to).map_err(|error| with_path(error, to))?;
    store.close().map_err(|error| with_path(error, data))?;
    busy.finish_and_clear();
    let line = format!(
        "copied {} into `{}`: {} in {}, up to commit {}",
        data.display(),
        to.display(),
        count(made.bytes, "byte"),
        count(made.segments as u64, "segment"),
        made.commit
    );
    match out.format() {
        OutputFormat::Table => out.line(&line)?,
        OutputFormat::Json | OutputFormat::Jsonl => {
            let (bytes, segments, commit) = (made.bytes, made.segments, made.commit);
            let to = to.display().to_string();
            let made = json!({ "to": to, "bytes": bytes, "segments": segments, "commit": commit });
            out.object(&made, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks a running server for a backup.
pub(crate) fn backup_running(mut call: CommandContext, name: &str) -> anyhow::Result<ExitCode> {
    let busy = spinner("backing up");
    let mut made = call.client.call(&Method::POST, "/v1/backups", &json!({ "name": name }))?;
    busy.finish_and_clear();
    let number = |field: &str| made.get(field).and_then(Value::as_u64).unwrap_or_default();
    let line = format!(
        "made backup `{name}`: {} in {}, up to commit {}",
        count(number("bytes"), "byte"),
        count(number("segments"), "segment"),
        number("commit")
    );
    match call.out.format() {
        OutputFormat::Table => call.out.line(&line)?,
        OutputFormat::Json | OutputFormat::Jsonl => {
            made["did"] = line.into();
            call.out.object(&made, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks a store and prints what is damaged.
pub(crate) fn verify(mut out: CommandOutput, data: &Path) -> anyhow::Result<ExitCode> {
    let disk = open_existing(data)?;
    let busy = spinner("checking the store");
    let report = embedded::verify(&disk).map_err(|error| with_path(error, data))?;
    busy.finish_and_clear();
    match out.format() {
        OutputFormat::Table => {
            out.line(report.to_string().trim_end())?;
            if !report.is_good() {
                let dir = data.display();
                out.line(&format!(
                    "copy the directory, then run `crore repair {dir}` to make what is left usable"
                ))?;
            }
        }
        OutputFormat::Json | OutputFormat::Jsonl => {
            out.object(&store_report::verified(&report), &[])?;
        }
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { FailureCode::Failed.into() })
}

/// Repairs a store and prints what is lost.
pub(crate) fn repair(mut out: CommandOutput, data: &Path) -> anyhow::Result<ExitCode> {
    let disk = open_existing(data)?;
    let busy = spinner("repairing the store");
    let repairs = embedded::repair(&disk).map_err(|error| with_path(error, data))?;
    busy.finish_and_clear();
    match (out.format(), repairs.is_empty()) {
        (OutputFormat::Table, true) => out.line("no damage found; nothing was changed")?,
        (OutputFormat::Table, false) => out.line(repairs.to_string().trim_end())?,
        (OutputFormat::Json | OutputFormat::Jsonl, _) => {
            out.object(&store_report::repaired(&repairs), &[])?;
        }
    }
    Ok(if repairs.has_losses() { FailureCode::Failed.into() } else { ExitCode::SUCCESS })
}

/// Opens the data directory of a store, which must exist.
fn open_existing(dir: &Path) -> anyhow::Result<Directory> {
    if !dir.is_dir() {
        let message = format!("directory `{}` does not exist", dir.display());
        return Err(CliError::new(FailureCode::NotFound, message).into());
    }
    match Directory::open(dir) {
        Ok(disk) => Ok(disk),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(CliError::new(FailureCode::Conflict, format!("{error}; stop that process first"))
                .into())
        }
        Err(error) => Err(error).with_context(|| format!("cannot open `{}`", dir.display())),
    }
}

fn with_path(error: crore_store::Error, dir: &Path) -> anyhow::Error {
    anyhow!(error).context(format!("`{}`", dir.display()))
}

fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
