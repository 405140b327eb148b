//! `crore error`: ls, get.

use std::process::ExitCode;

use clap::Subcommand;

use super::CommandContext;
use super::client::{list_field, path_segment, with_query};
use crate::output::Column;

const EXAMPLES: &str = "\
Examples:
  crore error ls --queue mail              groups of errors, the newest first
  crore job ls 'error=FINGERPRINT'         the jobs of a group
  crore job retry 'error=FINGERPRINT'      retry them";

const COLUMNS: &[Column] = &[
    ("FINGERPRINT", "/fingerprint"),
    ("COUNT", "/count"),
    ("FIRST", "/first_at"),
    ("LAST", "/last_at"),
    ("JOB", "/job"),
    ("QUEUE", "/places/0/queue"),
    ("KIND", "/places/0/kind"),
    ("VERSIONS", "/versions"),
    ("MESSAGE", "/message"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum ErrorCommand {
    /// List groups of errors that differ only in numbers, ids and quoted parts
    #[command(after_help = EXAMPLES)]
    Ls {
        /// Only errors of jobs in this queue
        #[arg(long)]
        queue: Option<String>,
        /// Only errors of jobs of this kind
        #[arg(long)]
        kind: Option<String>,
        /// Maximum number of groups, 1 to 1000
        #[arg(short, value_name = "N", default_value = "100")]
        n: usize,
    },
    /// Show a group of errors
    Get {
        /// Fingerprint: 16 hexadecimal digits
        fingerprint: String,
    },
}

pub(crate) fn run(mut call: CommandContext, command: ErrorCommand) -> anyhow::Result<ExitCode> {
    match command {
        ErrorCommand::Ls { queue, kind, n } => {
            let query = [("queue", queue), ("kind", kind), ("limit", Some(n.to_string()))];
            let found = call.client.get(&with_query("/v1/errors", &query))?;
            call.out.rows(COLUMNS, &list_field(found, "groups"))?;
        }
        ErrorCommand::Get { fingerprint } => {
            let path = format!("/v1/errors/{}", path_segment(&fingerprint));
            let group = call.client.get(&path)?;
            call.out.object(&group, &["fingerprint", "count", "first_at", "last_at", "message"])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
