//! `crore backup | verify | repair`: on the directory of a store that no server has open; a backup also by the
//! server that has it.

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

use super::Call;
use crate::exit::{Failure, Why};
use crate::out::{Format, Out, busy};

/// Copies a store into an empty directory.
pub(crate) fn backup(data: &Path, to: &Path) -> anyhow::Result<ExitCode> {
    drop(existing(data)?);
    let busy = busy("reading the store");
    let store = Embedded::open(data, Arc::new(SystemClock), Options::default())
        .map_err(|error| said(error, data))?;
    busy.set_message("copying");
    let made = store.backup(to).map_err(|error| said(error, to))?;
    store.close().map_err(|error| said(error, data))?;
    busy.finish_and_clear();
    let line = format!(
        "copied {} into `{}`: {} in {}, up to commit {}",
        data.display(),
        to.display(),
        count(made.bytes, "byte"),
        count(made.segments as u64, "segment"),
        made.commit
    );
    Out::new(Format::Table).line(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// Has a running server copy its store.
pub(crate) fn backup_running(mut call: Call, name: &str) -> anyhow::Result<ExitCode> {
    let busy = busy("the server copies its store");
    let made = call.client.call(&Method::POST, "/v1/backups", &json!({ "name": name }))?;
    busy.finish_and_clear();
    let number = |field: &str| made.get(field).and_then(Value::as_u64).unwrap_or_default();
    let line = format!(
        "the server made the backup `{name}`: {} in {}, up to commit {}",
        count(number("bytes"), "byte"),
        count(number("segments"), "segment"),
        number("commit")
    );
    call.out.did(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads everything and says what is wrong.
pub(crate) fn verify(data: &Path) -> anyhow::Result<ExitCode> {
    let disk = existing(data)?;
    let busy = busy("reading everything");
    let report = embedded::verify(&disk).map_err(|error| said(error, data))?;
    busy.finish_and_clear();
    let mut out = Out::new(Format::Table);
    out.line(report.to_string().trim_end())?;
    if report.is_good() {
        return Ok(ExitCode::SUCCESS);
    }
    let dir = data.display();
    out.line(&format!(
        "copy the directory, and then `crore repair {dir}` makes what is left usable"
    ))?;
    Ok(Why::Failed.into())
}

/// Mends what can be mended, and says what is lost.
pub(crate) fn repair(data: &Path) -> anyhow::Result<ExitCode> {
    let disk = existing(data)?;
    let busy = busy("reading everything");
    let repairs = embedded::repair(&disk).map_err(|error| said(error, data))?;
    busy.finish_and_clear();
    let mut out = Out::new(Format::Table);
    match repairs.is_empty() {
        true => out.line("there was no damage, and nothing was changed")?,
        false => out.line(repairs.to_string().trim_end())?,
    }
    Ok(if repairs.loses() { Why::Failed.into() } else { ExitCode::SUCCESS })
}

/// The directory of a store, which must be there: a look makes none.
fn existing(dir: &Path) -> anyhow::Result<Directory> {
    if !dir.is_dir() {
        let message = format!("there is no directory `{}`", dir.display());
        return Err(Failure::new(Why::NotFound, message).into());
    }
    match Directory::open(dir) {
        Ok(disk) => Ok(disk),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(Failure::new(Why::Conflict, format!("{error}; stop it first")).into())
        }
        Err(error) => Err(error).with_context(|| format!("cannot open `{}`", dir.display())),
    }
}

fn said(error: crore_store::Error, dir: &Path) -> anyhow::Error {
    anyhow!(error).context(format!("`{}`", dir.display()))
}

fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
