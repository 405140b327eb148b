//! `crore job`: push, get, ls, wait, result, retry, cancel, edit, rm.

mod act;
mod lines;
mod look;
mod new;
mod push;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use new::{Body, NewJob};

use super::Call;

const PUSH_EXAMPLES: &str = "\
Examples:
  crore job push mail '{\"to\": \"ada\"}'               one job
  crore job push mail @letter.json --delay 10m      its payload from a file, not before ten minutes
  crore job push mail - < letters.jsonl             a job for each line, which is its payload
  crore job push - < jobs.jsonl                     a job for each line: {\"kind\": \"mail\", …}";

const ACT_EXAMPLES: &str = "\
Examples:
  crore job retry 17 18
  crore job retry --state dead --queue mail --dry-run";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Push a job, or one for each line of the standard input
    #[command(after_help = PUSH_EXAMPLES)]
    Push(Box<push::Push>),
    /// Show a job
    Get {
        /// Its id
        id: String,
        /// Also what its workers said: progress and log lines
        #[arg(long)]
        notes: bool,
        /// Also why it is not running
        #[arg(long)]
        why: bool,
    },
    /// List jobs
    Ls(look::Ls),
    /// Wait until a job has ended, and print its result
    #[command(
        after_help = "Ends with 0 if the job is done, and with 1 if it is not or has failed."
    )]
    Wait {
        /// Its id
        id: String,
        /// How long to wait
        #[arg(long, value_name = "SPAN", default_value = "24h")]
        r#for: String,
    },
    /// Write what a job gave, as it is
    #[command(
        after_help = "Ends with 0 if there is something, with 3 if it gave nothing or that is not kept, and with 1 if it has failed or not ended."
    )]
    Result {
        /// Its id
        id: String,
        /// How long to wait for its end
        #[arg(long, value_name = "SPAN", default_value = "0s")]
        r#for: String,
    },
    /// Run jobs again, or now
    #[command(after_help = ACT_EXAMPLES)]
    Retry(act::Which),
    /// Let jobs not run; running ones are asked to stop
    #[command(after_help = ACT_EXAMPLES)]
    Cancel(act::Which),
    /// Change where or when a job runs
    Edit(act::Edit),
    /// Remove jobs
    #[command(after_help = ACT_EXAMPLES)]
    Rm(act::Which),
}

pub(crate) fn run(call: Call, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Push(push) => push::run(call, *push),
        Command::Get { id, notes, why } => look::get(call, &id, notes, why),
        Command::Ls(ls) => look::ls(call, &ls),
        Command::Wait { id, r#for } => look::wait(call, &id, &r#for),
        Command::Result { id, r#for } => look::result(call, &id, &r#for),
        Command::Retry(which) => act::run(call, "retry", which),
        Command::Cancel(which) => act::run(call, "cancel", which),
        Command::Edit(edit) => act::edit(call, edit),
        Command::Rm(which) => act::run(call, "delete", which),
    }
}
