//! `crore queue`: ls, pause, resume, drain, set.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use crore_wire::words::Period;
use hyper::Method;
use serde_json::json;

use super::client::{list, segment, with_query};
use super::{Call, said};
use crate::exit::{Failure, Why};
use crate::out::Column;

const COLUMNS: &[Column] = &[
    ("QUEUE", "/name"),
    ("PAUSED", "/paused"),
    ("READY", "/counts/ready"),
    ("RUNNING", "/counts/running"),
    ("SCHEDULED", "/counts/scheduled"),
    ("WAITING", "/counts/waiting"),
    ("DEAD", "/counts/dead"),
    ("DONE", "/counts/done"),
    ("CANCELLED", "/counts/cancelled"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all queues with how many jobs each has
    Ls,
    /// Hand out no more jobs of a queue; those that run go on
    Pause {
        /// The queue
        queue: String,
    },
    /// Hand out jobs of a queue again
    Resume {
        /// The queue
        queue: String,
    },
    /// Pause a queue and wait until none of its jobs runs
    Drain {
        /// The queue
        queue: String,
        /// How long to wait
        #[arg(long, value_name = "SPAN", default_value = "60s")]
        r#for: String,
    },
    /// Say how long the jobs of a queue are kept when they have ended
    Set(Set),
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The queue
    queue: String,
    /// How long done and cancelled jobs are kept, as 24h
    #[arg(long, value_name = "SPAN")]
    keep_done: Option<String>,
    /// How many done and cancelled jobs are kept, each
    #[arg(long, value_name = "N")]
    max_done: Option<u64>,
    /// How long dead jobs are kept, as 180d
    #[arg(long, value_name = "SPAN")]
    keep_dead: Option<String>,
    /// How many dead jobs are kept
    #[arg(long, value_name = "N")]
    max_dead: Option<u64>,
}

pub(crate) fn run(mut call: Call, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ls => {
            let queues = list(call.client.get("/v1/queues")?, "queues");
            call.out.rows(COLUMNS, &queues)?;
        }
        Command::Pause { queue } => {
            act(&mut call, &queue, "pause")?;
            call.out.did(&format!("`{queue}` is paused"))?;
        }
        Command::Resume { queue } => {
            act(&mut call, &queue, "resume")?;
            call.out.did(&format!("`{queue}` is not paused"))?;
        }
        Command::Drain { queue, r#for } => return drain(&mut call, &queue, &r#for),
        Command::Set(set) => {
            let body = said([
                ("keep_done", set.keep_done.map(Into::into)),
                ("max_done", set.max_done.map(Into::into)),
                ("keep_dead", set.keep_dead.map(Into::into)),
                ("max_dead", set.max_dead.map(Into::into)),
            ]);
            let path = format!("/v1/queues/{}", segment(&set.queue));
            let queue = call.client.call(&Method::PATCH, &path, &body)?;
            call.out.one(&queue, &["name", "paused"])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn act(call: &mut Call, queue: &str, act: &str) -> anyhow::Result<()> {
    let path = format!("/v1/queues/{}/{act}", segment(queue));
    call.client.post(&path, &json!({})).map(drop)
}

/// How long one call waits, in milliseconds.
const WAIT: u64 = 30_000;

fn drain(call: &mut Call, queue: &str, at_most: &str) -> anyhow::Result<ExitCode> {
    let at_most: Period = at_most.parse().map_err(|wrong| Failure::new(Why::Usage, wrong))?;
    let path = format!("/v1/queues/{}/drain", segment(queue));
    let mut left = at_most.0.as_millis();
    loop {
        let some = left.min(WAIT);
        let path = with_query(&path, &[("wait", Some(format!("{some}ms")))]);
        let answer = call.client.post(&path, &json!({}))?;
        left -= some;
        if answer.get("drained") == Some(&true.into()) {
            call.out.did(&format!("`{queue}` is paused, and none of its jobs runs"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if left == 0 {
            call.out.did(&format!("`{queue}` is paused, and some of its jobs still run"))?;
            return Ok(Why::Failed.into());
        }
    }
}
