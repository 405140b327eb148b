//! crore itself: the built server with a store that syncs before it answers, used as its users use it, by
//! `crore-client`.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crore_client::{Client, Error, Job, Worker, v1};
use crore_testkit::{Package, Process};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::job::{self, BATCH, SLOTS};
use crate::ledger::{Ledger, Taken, Wait};
use crate::line::Line;
use crate::peer::{Durability, Fault, Peer, Setting};
use crate::produce::UNANSWERED;
use crate::server;

pub(crate) const SYNCED: Setting = Setting::new("embedded store", Durability::Synced);
const MEMORY: Setting = Setting::new("memory", Durability::None);

const SCRIPT: &str = r#"
port=$1 crore=$2
shift 2
exec "$crore" serve --listen "127.0.0.1:$port" "$@"
"#;

const QUEUE: &str = "work";
/// How often is looked whether all is over.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Crore;

impl Peer for Crore {
    fn name(&self) -> &'static str {
        "crore"
    }

    fn packages(&self) -> Vec<Package> {
        Vec::new()
    }

    fn settings(&self) -> Result<Vec<Setting>, Fault> {
        Ok(vec![SYNCED, MEMORY])
    }

    fn start(&self, setting: &Setting, below: &Path) -> Result<Process, Fault> {
        // It lies beside this program.
        let program = std::env::current_exe()?.with_file_name("crore");
        start(&program, setting, below)
    }

    fn drive(&self, _: &Setting, port: u16, ledger: &Arc<Ledger>) -> Result<u64, Fault> {
        let address = format!("http://127.0.0.1:{port}");
        thread::scope(|scope| {
            let producer = scope.spawn(|| here(produce(&address, ledger)));
            here(work(&address, ledger))?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        left(port)
    }
}

/// Starts a server that was built.
pub(crate) fn start(program: &Path, setting: &Setting, below: &Path) -> Result<Process, Fault> {
    let program = program.to_str().ok_or("the server's path is no UTF-8")?;
    let store = if *setting == SYNCED { "--data=data" } else { "--memory" };
    server::start("crore", SCRIPT, &[program, store], below)
}

/// Runs it on this thread.
fn here(work: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Some batches are on their way at a time. Nothing waits for the ledger while one is.
async fn produce(address: &str, ledger: &Ledger) -> Result<(), Fault> {
    let client = Client::connect(address).await?;
    let mut pushes = JoinSet::new();
    loop {
        let wait = if pushes.is_empty() { Wait::Yes } else { Wait::No };
        let is_full = pushes.len() * BATCH >= UNANSWERED as usize;
        match if is_full { Taken::Later } else { ledger.take(BATCH, wait) } {
            Taken::Jobs(jobs) => {
                let client = client.clone();
                // As with the others, nothing is left of a job that is done.
                let jobs = jobs.map(|number| {
                    Job::new(QUEUE).bytes(job::with(number)).retain(v1::Retain::Nothing)
                });
                pushes.spawn(async move { client.push_all(jobs).await });
            }
            Taken::Later | Taken::Over => match pushes.join_next().await {
                Some(pushed) => ledger.pushed(pushed??.len() as u64),
                None => return Ok(()),
            },
        }
    }
}

/// A worker ends when all its reports were answered.
async fn work(address: &str, ledger: &Arc<Ledger>) -> Result<(), Fault> {
    let client = Client::connect(address).await?;
    let run = Arc::clone(ledger);
    let worker = Worker::new(&client).slots(SLOTS as u32).handle(QUEUE, move |delivery| {
        let number = job::number(delivery.payload());
        run.ran([number]);
        run.finished([number]);
        async { Ok::<_, Error>(()) }
    });
    let over = async {
        while !ledger.is_over() {
            tokio::time::sleep(LOOK).await;
        }
    };
    worker.run_until(over).await?;
    ledger.finished([]);
    Ok(())
}

/// Jobs that have not ended, as the server counts them.
fn left(port: u16) -> Result<u64, Fault> {
    let mut line = Line::open(port)?;
    line.say.extend_from_slice(b"GET /v1/counts HTTP/1.1\r\nhost: localhost\r\n\r\n");
    line.send()?;
    let status = line.line()?;
    if status != "HTTP/1.1 200 OK" {
        return Err(format!("crore said `{status}`").into());
    }
    let mut length = 0;
    loop {
        match line.line()?.to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let counts: Value = serde_json::from_slice(line.bytes(length)?)?;
    let counts = counts["counts"].as_array().ok_or("no counts")?;
    let unfinished = counts.iter().filter(|count| count["state"] != "done");
    Ok(unfinished.filter_map(|count| count["n"].as_u64()).sum())
}
