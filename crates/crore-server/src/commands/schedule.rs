//! `crore schedule`: ls, set, rm, pause, resume, preview.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::Call;
use super::client::{list, segment, with_query};
use super::job::{Body, NewJob};

const EXAMPLES: &str = "\
Examples:
  crore schedule set nightly 'cron 0 3 * * * in Europe/Berlin' report '{\"of\": \"yesterday\"}'
  crore schedule set beat 'every 15m' heartbeat";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all schedules
    Ls,
    /// Set a schedule
    #[command(after_help = EXAMPLES)]
    Set(Box<Set>),
    /// Remove a schedule; what it has pushed stays
    Rm {
        /// Its name
        name: String,
    },
    /// Let a schedule not fire
    Pause {
        /// Its name
        name: String,
    },
    /// Let a schedule fire again
    Resume {
        /// Its name
        name: String,
    },
    /// Say when a timing fires
    Preview {
        /// When: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`
        timing: String,
        /// How many times
        #[arg(short, value_name = "N", default_value = "10")]
        n: usize,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Its name
    name: String,
    /// When it fires: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`
    timing: String,
    /// What becomes of ticks that crore was not there for: skip, once, all
    #[arg(long, value_name = "HOW")]
    missed: Option<String>,
    #[command(flatten)]
    job: NewJob,
}

/// A schedule as the API takes it.
#[derive(Debug, Serialize)]
struct SetSchedule {
    timing: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<String>,
    job: Body,
}

pub(crate) fn run(mut call: Call, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ls => {
            let schedules = list(call.client.get("/v1/schedules")?, "schedules");
            let columns = [
                ("NAME", "/name"),
                ("TIMING", "/timing"),
                ("NEXT", "/next_at"),
                ("PAUSED", "/paused"),
                ("PUSHES", "/job/kind"),
            ];
            call.out.rows(&columns, &schedules)?;
        }
        Command::Set(set) => {
            let name = set.name.clone();
            let body = SetSchedule { timing: set.timing, missed: set.missed, job: set.job.body()? };
            call.client.call(&Method::PUT, &path(&name), &body)?;
            call.out.did(&format!("the schedule `{name}` is set"))?;
        }
        Command::Rm { name } => {
            call.client.delete(&path(&name))?;
            call.out.did(&format!("the schedule `{name}` is gone"))?;
        }
        Command::Pause { name } => {
            call.client.post(&format!("{}/pause", path(&name)), &json!({}))?;
            call.out.did(&format!("the schedule `{name}` is paused"))?;
        }
        Command::Resume { name } => {
            call.client.post(&format!("{}/resume", path(&name)), &json!({}))?;
            call.out.did(&format!("the schedule `{name}` fires again"))?;
        }
        Command::Preview { timing, n } => {
            let query = [("timing", Some(timing)), ("n", Some(n.to_string()))];
            let ahead = call.client.get(&with_query("/v1/preview", &query))?;
            let ticks = list(ahead, "ticks").into_iter();
            let rows: Vec<Value> = ticks.map(|at| json!({ "at": at })).collect();
            call.out.rows(&[("AT", "/at")], &rows)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn path(name: &str) -> String {
    format!("/v1/schedules/{}", segment(name))
}
