//! `crore job`: push, get, diff, ls, wait, result, retry, cancel, replay, edit, rm.

mod act;
mod filter;
mod inspect;
mod lines;
mod new;
pub(super) mod payload;
mod push;
mod replay;
mod retry;
mod show;

use std::process::ExitCode;

use clap::Subcommand;
use crore_wire::units::Period;

pub(crate) use new::{JobArgs, JobBody};
pub(crate) use retry::RetryArgs;

use super::CommandContext;

const PUSH_EXAMPLES: &str = "\
Examples:
  crore job push mail '{\"to\": \"ada\"}'               one job
  crore job push mail @letter.json --delay 10m      payload from a file, starts after ten minutes
  crore job push scan --file page.png --encoding bytes
  crore job push mail - < letters.jsonl             one job per line; the line is its payload
  crore job push - < jobs.jsonl                     one job per line: {\"kind\": \"mail\", …}

Without flags for retries, a job has the retry policy of its kind's handler, or the default policy.";

const LIST_EXAMPLES: &str = "\
Examples:
  crore job ls --state dead --queue mail
  crore job ls 'state:dead,cancelled kind:mail* error~timeout age>1h'
  crore job ls 'payload.customer=42 -state:done'

Terms: state: queue: kind: worker: label:NAME[=VALUE] id: parent: replays: group: why:
  error~TEXT error=FINGERPRINT payload.PATH=VALUE (also ~ < >) age>1h pushed>-1d due<+10m started<now
  ended>2026-11-18 attempt>3 crashes>0 priority<0";

const RETRY_EXAMPLES: &str = "\
Examples:
  crore job retry 17 18
  crore job retry --state dead --queue mail --dry-run
  crore job retry 'state:dead error~timeout ended>-1d' --yes

A filter is that of `crore job ls`. The action runs in the server; interrupting the command does not stop it.";

const CANCEL_EXAMPLES: &str = "\
Examples:
  crore job cancel 17 18
  crore job cancel --kind report --pushed-before 2026-11-15T08:00:00Z --dry-run";

const REPLAY_EXAMPLES: &str = "\
Examples:
  crore job replay 17                                       the same job again
  crore job replay 17 --payload '{\"to\": \"ada\"}'           with another payload
  crore job replay --filter 'state:dead kind:mail' --queue slow --version '>=2.3' --dry-run

The originals stay unchanged. `crore job get` shows the original of a replay as replay_of, and
`crore job ls replays:17` lists the replays of a job.";

const DELETE_EXAMPLES: &str = "\
Examples:
  crore job rm 17 18
  crore job rm --state dead --queue mail --dry-run";

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Push a job, or one job per line of standard input
    #[command(after_help = PUSH_EXAMPLES)]
    Push(Box<push::PushArgs>),
    /// Show a job
    Get {
        /// Job id
        id: String,
        /// Include progress and log lines reported by its workers
        #[arg(long)]
        notes: bool,
        /// Include the reasons why it is not running
        #[arg(long)]
        why: bool,
    },
    /// Compare the payload of a job with the last done job of its queue and kind
    Diff {
        /// Job id
        id: String,
    },
    /// List jobs, or search for them
    #[command(after_help = LIST_EXAMPLES)]
    Ls(inspect::ListArgs),
    /// Wait for a job to end and print its result
    #[command(
        after_help = "Exits with 0 if the job is done, and with 1 if it failed, was cancelled or has not ended."
    )]
    Wait {
        /// Job id
        id: String,
        /// Maximum time to wait
        #[arg(long, value_name = "DURATION", default_value = "24h")]
        r#for: Period,
    },
    /// Print the result of a job, unmodified
    #[command(
        after_help = "Exits with 0 if there is a result, with 3 if the job returned none or its result was not kept, and with 1 if the job failed or has not ended."
    )]
    Result {
        /// Job id
        id: String,
        /// Maximum time to wait for the job to end
        #[arg(long, value_name = "DURATION", default_value = "0s")]
        r#for: Period,
    },
    /// Run dead or cancelled jobs again, or scheduled jobs now
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(act::JobSelection),
    /// Cancel jobs; running jobs are asked to stop
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(act::JobSelection),
    /// Push jobs again, as new jobs, with another payload, queue or version
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(replay::ReplayArgs),
    /// Change the queue, priority or due time of a job
    Edit(act::EditArgs),
    /// Delete jobs
    #[command(after_help = DELETE_EXAMPLES)]
    Rm(act::JobSelection),
}

pub(crate) fn run(call: CommandContext, command: JobCommand) -> anyhow::Result<ExitCode> {
    match command {
        JobCommand::Push(push) => push::run(call, *push),
        JobCommand::Get { id, notes, why } => inspect::get(call, &id, notes, why),
        JobCommand::Diff { id } => inspect::diff(call, &id),
        JobCommand::Ls(ls) => inspect::ls(call, &ls),
        JobCommand::Wait { id, r#for } => inspect::wait(call, &id, r#for),
        JobCommand::Result { id, r#for } => inspect::result(call, &id, r#for),
        JobCommand::Retry(which) => act::run(call, "retry", which),
        JobCommand::Cancel(which) => act::run(call, "cancel", which),
        JobCommand::Replay(replay) => replay::run(call, &replay),
        JobCommand::Edit(edit) => act::edit(call, edit),
        JobCommand::Rm(which) => act::run(call, "delete", which),
    }
}
