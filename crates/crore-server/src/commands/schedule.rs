//! `crore schedule`: ls, set, rm, pause, resume, run, runs, preview.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use crore_core::schedule::Timing;
use crore_wire::api::enums::Missed;
use hyper::Method;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Value, json};

use super::CommandContext;
use super::client::{list_field, path_segment, with_query};
use super::job::{JobArgs, JobBody};
use super::word::word;

const EXAMPLES: &str = "\
Examples:
  crore schedule set nightly 'cron 0 3 * * * in Europe/Berlin' report '{\"of\": \"yesterday\"}'
  crore schedule set beat 'every 15m' heartbeat";

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List schedules
    Ls,
    /// Create or replace a schedule
    #[command(after_help = EXAMPLES)]
    Set(Box<ScheduleArgs>),
    /// Delete a schedule; jobs already pushed remain
    Rm {
        /// Name of the schedule
        name: String,
    },
    /// Pause a schedule
    Pause {
        /// Name of the schedule
        name: String,
    },
    /// Resume a paused schedule
    Resume {
        /// Name of the schedule
        name: String,
    },
    /// Push the job of a schedule now, once
    Run {
        /// Name of the schedule
        name: String,
    },
    /// Show the last jobs that a schedule pushed
    Runs {
        /// Name of the schedule
        name: String,
    },
    /// Show the next firing times of a cron expression or interval, in its own time zone and in UTC
    Preview {
        /// Timing: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`
        timing: String,
        /// Number of firing times to show
        #[arg(short, value_name = "N", default_value = "10")]
        n: usize,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// Name of the schedule
    name: String,
    /// Timing: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`
    timing: String,
    /// Policy for firing times missed while the server was down: skip, once (one job for all of them),
    /// all (one job for each) [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = word::<Missed>)]
    missed: Option<Missed>,
    #[command(flatten)]
    job: JobArgs,
}

/// Request body of a schedule.
#[derive(Debug, Serialize)]
struct ScheduleBody {
    timing: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<Missed>,
    job: JobBody,
}

pub(crate) fn run(mut call: CommandContext, command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    match command {
        ScheduleCommand::Ls => {
            let schedules = list_field(call.client.get("/v1/schedules")?, "schedules");
            let columns = [
                ("NAME", "/name"),
                ("TIMING", "/timing"),
                ("NEXT", "/next_at"),
                ("PAUSED", "/paused"),
                ("PUSHES", "/job/kind"),
            ];
            call.out.rows(&columns, &schedules)?;
        }
        ScheduleCommand::Set(set) => {
            let name = set.name.clone();
            let body =
                ScheduleBody { timing: set.timing, missed: set.missed, job: set.job.body()? };
            call.client.call(&Method::PUT, &path(&name), &body)?;
            call.out.confirm(&format!("schedule `{name}` set"))?;
        }
        ScheduleCommand::Rm { name } => {
            call.client.delete(&path(&name))?;
            call.out.confirm(&format!("schedule `{name}` deleted"))?;
        }
        ScheduleCommand::Pause { name } => {
            call.client.post(&format!("{}/pause", path(&name)), &json!({}))?;
            call.out.confirm(&format!("schedule `{name}` paused"))?;
        }
        ScheduleCommand::Resume { name } => {
            call.client.post(&format!("{}/resume", path(&name)), &json!({}))?;
            call.out.confirm(&format!("schedule `{name}` resumed"))?;
        }
        ScheduleCommand::Run { name } => {
            let pushed = call.client.post(&format!("{}/run", path(&name)), &json!({}))?;
            call.out.object(&pushed, &["status", "id"])?;
        }
        ScheduleCommand::Runs { name } => {
            let jobs = list_field(call.client.get(&format!("{}/runs", path(&name)))?, "jobs");
            let columns =
                [("JOB", "/id"), ("STATE", "/state"), ("DUE", "/due_at"), ("ENDED", "/ended_at")];
            call.out.rows(&columns, &jobs)?;
        }
        ScheduleCommand::Preview { timing, n } => {
            let query = [("timing", Some(timing)), ("n", Some(n.to_string()))];
            let ahead = call.client.get(&with_query("/v1/preview", &query))?;
            let zone = zone_of(ahead["timing"].as_str().unwrap_or_default());
            let ticks = list_field(ahead, "ticks").into_iter();
            let rows: Vec<Value> = ticks.map(|at| tick_row(&at, &zone)).collect();
            call.out.rows(&[("LOCAL", "/local"), ("AT", "/at")], &rows)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The time zone of a timing. Intervals have none: UTC.
fn zone_of(timing: &str) -> TimeZone {
    let name = match Timing::parse("timing", timing) {
        Ok(Timing::Cron(cron)) => cron.zone().to_owned(),
        _ => return TimeZone::UTC,
    };
    jiff::tz::TimeZoneDatabase::bundled().get(&name).unwrap_or(TimeZone::UTC)
}

/// A tick in UTC, and as the clocks of its zone show it.
fn tick_row(at: &Value, zone: &TimeZone) -> Value {
    let instant = at.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let local = instant.map(|instant| {
        instant.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z (%a)").to_string()
    });
    json!({ "at": at, "local": local })
}

fn path(name: &str) -> String {
    format!("/v1/schedules/{}", path_segment(name))
}
