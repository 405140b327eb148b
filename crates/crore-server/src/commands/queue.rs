//! `crore queue`: ls, explain, pause, resume, drain, set.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use crore_wire::units::Period;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{list_field, path_segment, with_query};
use super::{CommandContext, object_of};
use crate::exit::FailureCode;
use crate::output::Column;

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
    ("OLDEST", "/oldest_at"),
    ("WORKERS", "/workers"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues with their job counts
    Ls,
    /// Explain why the jobs of a queue wait
    Explain {
        /// Queue name
        queue: String,
    },
    /// Stop delivering jobs of a queue; running jobs continue
    Pause {
        /// Queue name
        queue: String,
    },
    /// Resume a paused queue
    Resume {
        /// Queue name
        queue: String,
    },
    /// Pause a queue and wait until none of its jobs is running
    Drain {
        /// Queue name
        queue: String,
        /// Maximum time to wait
        #[arg(long, value_name = "DURATION", default_value = "60s")]
        r#for: Period,
    },
    /// Set the retention of ended jobs in a queue, how it is shared, and its indexed fields
    Set(QueueArgs),
}

#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    /// Queue name
    queue: String,
    /// Retention of done and cancelled jobs, such as 24h
    #[arg(long, value_name = "DURATION")]
    keep_done: Option<Period>,
    /// Maximum number of done jobs to keep, and of cancelled jobs
    #[arg(long, value_name = "N")]
    max_done: Option<u64>,
    /// Retention of dead jobs, such as 180d
    #[arg(long, value_name = "DURATION")]
    keep_dead: Option<Period>,
    /// Maximum number of dead jobs to keep
    #[arg(long, value_name = "N")]
    max_dead: Option<u64>,
    /// Deliver jobs in turns between the values of a field, such as payload.tenant or label.team
    #[arg(long, value_name = "FIELD")]
    fair_by: Option<String>,
    /// Weight of a value of the field, 1 to 1000; repeatable. Other values have weight 1
    #[arg(long = "weight", value_name = "VALUE=N", value_parser = weight, requires = "fair_by")]
    weights: Vec<(String, u32)>,
    /// Stop sharing the queue
    #[arg(long, conflicts_with = "fair_by")]
    no_fair: bool,
    /// Index a payload field for searches, such as payload.customer; repeatable, at most 4. Replaces the indexed fields
    #[arg(long, value_name = "FIELD")]
    index: Vec<String>,
    /// Index no payload field
    #[arg(long, conflicts_with = "index")]
    no_index: bool,
}

impl QueueArgs {
    fn share(&self) -> Option<Value> {
        if self.no_fair {
            return Some(Value::Null);
        }
        let weights: serde_json::Map<String, Value> =
            self.weights.iter().map(|(value, weight)| (value.clone(), (*weight).into())).collect();
        self.fair_by.as_ref().map(|by| json!({ "by": by, "weights": weights }))
    }
}

impl QueueArgs {
    fn index(&self) -> Option<Value> {
        let is_set = self.no_index || !self.index.is_empty();
        is_set.then(|| if self.no_index { Value::Null } else { json!(self.index) })
    }
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let parts =
        text.rsplit_once('=').and_then(|(value, n)| Some((value.to_owned(), n.parse().ok()?)));
    parts.ok_or_else(|| "expected VALUE=N, such as acme=3".to_owned())
}

pub(crate) fn run(mut call: CommandContext, command: QueueCommand) -> anyhow::Result<ExitCode> {
    match command {
        QueueCommand::Ls => {
            let queues = list(&mut call)?;
            call.out.rows(COLUMNS, &queues)?;
        }
        QueueCommand::Explain { queue } => {
            let why = call.client.get(&format!("/v1/queues/{}/explain", path_segment(&queue)))?;
            let columns = [("REASON", "/reason"), ("JOBS", "/jobs"), ("DETAIL", "/detail")];
            call.out.rows(&columns, &list_field(why, "reasons"))?;
        }
        QueueCommand::Pause { queue } => {
            act(&mut call, &queue, "pause")?;
            call.out.confirm(&format!("queue `{queue}` paused"))?;
        }
        QueueCommand::Resume { queue } => {
            act(&mut call, &queue, "resume")?;
            call.out.confirm(&format!("queue `{queue}` resumed"))?;
        }
        QueueCommand::Drain { queue, r#for } => return drain(&mut call, &queue, r#for),
        QueueCommand::Set(set) => {
            let body = object_of([
                ("keep_done", set.keep_done.map(|keep| json!(keep))),
                ("max_done", set.max_done.map(Into::into)),
                ("keep_dead", set.keep_dead.map(|keep| json!(keep))),
                ("max_dead", set.max_dead.map(Into::into)),
                ("fair", set.share()),
                ("index", set.index()),
            ]);
            let path = format!("/v1/queues/{}", path_segment(&set.queue));
            let queue = call.client.call(&Method::PATCH, &path, &body)?;
            call.out.object(&queue, &["name", "paused"])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All pages of the list.
fn list(call: &mut CommandContext) -> anyhow::Result<Vec<Value>> {
    let (mut queues, mut cursor) = (Vec::new(), None);
    loop {
        let page = call.client.get(&with_query("/v1/queues", &[("cursor", cursor)]))?;
        cursor = page.get("next").and_then(Value::as_str).map(str::to_owned);
        queues.extend(list_field(page, "queues"));
        if cursor.is_none() {
            return Ok(queues);
        }
    }
}

fn act(call: &mut CommandContext, queue: &str, act: &str) -> anyhow::Result<()> {
    let path = format!("/v1/queues/{}/{act}", path_segment(queue));
    call.client.post(&path, &json!({})).map(drop)
}

/// Maximum wait per call, in milliseconds.
const MAX_WAIT_MS: u64 = 30_000;

fn drain(call: &mut CommandContext, queue: &str, at_most: Period) -> anyhow::Result<ExitCode> {
    let path = format!("/v1/queues/{}/drain", path_segment(queue));
    let mut left = at_most.0.as_millis();
    loop {
        let some = left.min(MAX_WAIT_MS);
        let path = with_query(&path, &[("wait", Some(format!("{some}ms")))]);
        let answer = call.client.post(&path, &json!({}))?;
        left -= some;
        if answer.get("drained") == Some(&true.into()) {
            call.out.confirm(&format!("queue `{queue}` paused; none of its jobs is running"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if left == 0 {
            call.out
                .confirm(&format!("queue `{queue}` paused; some of its jobs are still running"))?;
            return Ok(FailureCode::Failed.into());
        }
    }
}
