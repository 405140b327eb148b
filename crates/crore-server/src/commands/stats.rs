//! `crore stats`: counts and latencies of jobs, over time or by queue and kind; marks that may explain them.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use crore_core::{Clock, Span};
use crore_store::SystemClock;
use crore_wire::units::{Moment, Period};
use serde_json::Value;

use super::CommandContext;
use super::client::{list_field, with_query};
use crate::output::Column;

const HOUR: Span = Span::from_secs(3600);

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Only jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// How far to look back, such as 1h or 7d. Default: the last 24 hours with any activity
    #[arg(long, value_name = "DURATION")]
    since: Option<Period>,
    /// Count by minute: without --since, the last 60 minutes with any activity
    #[arg(long)]
    minutes: bool,
    /// List restarts of the server, deploys of workers, and changes of queues and limits instead
    #[arg(long, conflicts_with_all = ["queue", "kind", "minutes", "by"])]
    marks: bool,
    /// Grouping of the rows
    #[arg(long, value_enum, default_value_t)]
    by: StatsGrouping,
}

/// Grouping of the rows. Help texts of the values would make the help of the command long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StatsGrouping {
    #[default]
    Time,
    Queue,
    Kind,
    Series,
}

impl StatsGrouping {
    const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Queue => "queue",
            Self::Kind => "kind",
            Self::Series => "series",
        }
    }

    /// Columns that name a row.
    const fn columns(self) -> &'static [Column] {
        match self {
            Self::Time => &[("FROM", "/at")],
            Self::Queue => &[("QUEUE", "/queue")],
            Self::Kind => &[("KIND", "/kind")],
            Self::Series => &[("QUEUE", "/queue"), ("KIND", "/kind")],
        }
    }
}

const COLUMNS: &[Column] = &[
    ("PUSHED", "/pushed"),
    ("DONE", "/done"),
    ("FAILED", "/failed"),
    ("DEAD", "/dead"),
    ("CANCELLED", "/cancelled"),
    ("WAIT P50", "/wait/p50"),
    ("P99", "/wait/p99"),
    ("RUN P50", "/run/p50"),
    ("P99", "/run/p99"),
];

pub(crate) fn run(mut call: CommandContext, args: &StatsArgs) -> anyhow::Result<ExitCode> {
    if args.marks {
        return marks(&mut call, args.since);
    }
    let step = if args.minutes { "minute" } else { step_since(args.since) };
    let from = args.since.map(|since| Moment(SystemClock.now().before(since.0)).to_string());
    let query = [
        ("queue", args.queue.clone()),
        ("kind", args.kind.clone()),
        ("step", Some(step.to_owned())),
        ("from", from),
        ("by", Some(args.by.name().to_owned())),
    ];
    let mut rows = list_field(call.client.get(&with_query("/v1/stats", &query))?, "rows");
    if args.by == StatsGrouping::Time && args.since.is_none() {
        let newest = if args.minutes { 60 } else { 24 };
        rows.drain(..rows.len().saturating_sub(newest));
    }
    rows.iter_mut().for_each(|row| name_other(row, args.by));
    let columns = [args.by.columns(), COLUMNS].concat();
    call.out.rows(&columns, &rows)?;
    Ok(ExitCode::SUCCESS)
}

const MARK_COLUMNS: &[Column] = &[
    ("AT", "/at"),
    ("MARK", "/mark"),
    ("NAMES", "/names"),
    ("ACTION", "/action"),
    ("VERSION", "/version"),
    ("BY", "/by"),
];

fn marks(call: &mut CommandContext, since: Option<Period>) -> anyhow::Result<ExitCode> {
    let from = since.map(|since| Moment(SystemClock.now().before(since.0)).to_string());
    let found = call.client.get(&with_query("/v1/marks", &[("from", from)]))?;
    call.out.rows(MARK_COLUMNS, &list_field(found, "marks"))?;
    Ok(ExitCode::SUCCESS)
}

/// Resolution with a readable number of rows.
fn step_since(since: Option<Period>) -> &'static str {
    match since.map(|since| since.0) {
        Some(since) if since <= HOUR.times(2) => "minute",
        Some(since) if since > HOUR.times(24 * 3) => "day",
        _ => "hour",
    }
}

/// Names the row of jobs that have no row of their own.
fn name_other(row: &mut Value, by: StatsGrouping) {
    let is_other =
        by != StatsGrouping::Time && row.get("queue").is_none() && row.get("kind").is_none();
    if let Some(row) = row.as_object_mut().filter(|_| is_other) {
        for (_, path) in by.columns() {
            row.insert(path.trim_start_matches('/').to_owned(), "(other)".into());
        }
    }
}
