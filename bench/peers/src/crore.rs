//! crore itself: the built server with a store that syncs before it answers, used through `crore-client`.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crore_client::{Client, Error, Job, Worker, v1};
use crore_testkit::{DebianPackage, SupervisedServer};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::connection::PeerConnection;
use crate::job::{self, BATCH, SLOTS};
use crate::ledger::{NextJobs, PeerLedger, WaitForRoom};
use crate::peer::{PeerDurability, PeerFault, PeerSetting, QueuePeer};
use crate::produce::MAX_UNANSWERED;
use crate::server;

pub(crate) const SYNCED: PeerSetting = PeerSetting::new("embedded store", PeerDurability::Synced);
const MEMORY: PeerSetting = PeerSetting::new("memory", PeerDurability::None);

const SCRIPT: &str = r#"
port=$1 crore=$2
shift 2
exec "$crore" serve --listen "127.0.0.1:$port" "$@"
"#;

const QUEUE: &str = "work";
/// How often the end of the run is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct CrorePeer;

impl QueuePeer for CrorePeer {
    fn name(&self) -> &'static str {
        "crore"
    }

    fn packages(&self) -> Vec<DebianPackage> {
        Vec::new()
    }

    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault> {
        Ok(vec![SYNCED, MEMORY])
    }

    fn start(&self, setting: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault> {
        // The server binary is in the directory of this program.
        let program = std::env::current_exe()?.with_file_name("crore");
        start(&program, setting, below)
    }

    fn drive(
        &self,
        _: &PeerSetting,
        port: u16,
        ledger: &Arc<PeerLedger>,
    ) -> Result<u64, PeerFault> {
        let address = format!("http://127.0.0.1:{port}");
        thread::scope(|scope| {
            let producer = scope.spawn(|| block_on_here(produce(&address, ledger)));
            block_on_here(work(&address, ledger))?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        left(port)
    }
}

/// Starts the server at this path.
pub(crate) fn start(
    program: &Path,
    setting: &PeerSetting,
    below: &Path,
) -> Result<SupervisedServer, PeerFault> {
    let program = program.to_str().ok_or("the path of the server is not valid UTF-8")?;
    let store = if *setting == SYNCED { "--data=data" } else { "--memory" };
    server::start("crore", SCRIPT, &[program, store], below)
}

/// Runs a future on this thread.
fn block_on_here(work: impl Future<Output = Result<(), PeerFault>>) -> Result<(), PeerFault> {
    Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Several batches are in flight; the ledger is never waited for while one is.
async fn produce(address: &str, ledger: &PeerLedger) -> Result<(), PeerFault> {
    let client = Client::connect(address).await?;
    let mut pushes = JoinSet::new();
    loop {
        let wait = if pushes.is_empty() { WaitForRoom::Yes } else { WaitForRoom::No };
        let is_full = pushes.len() * BATCH >= MAX_UNANSWERED as usize;
        match if is_full { NextJobs::Later } else { ledger.take(BATCH, wait) } {
            NextJobs::Jobs(jobs) => {
                let client = client.clone();
                // As with the peers, a finished job is not retained.
                let jobs = jobs.map(|number| {
                    Job::new(QUEUE).bytes(job::with(number)).retain(v1::Retain::Nothing)
                });
                pushes.spawn(async move { client.push_all(jobs).await });
            }
            NextJobs::Later | NextJobs::Over => match pushes.join_next().await {
                Some(pushed) => ledger.pushed(pushed??.len() as u64),
                None => return Ok(()),
            },
        }
    }
}

/// A worker ends when all its reports were answered.
async fn work(address: &str, ledger: &Arc<PeerLedger>) -> Result<(), PeerFault> {
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
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    worker.run_until(over).await?;
    ledger.finished([]);
    Ok(())
}

/// Unfinished jobs, as counted by the server.
fn left(port: u16) -> Result<u64, PeerFault> {
    let mut line = PeerConnection::open(port)?;
    line.output.extend_from_slice(b"GET /v1/counts HTTP/1.1\r\nhost: localhost\r\n\r\n");
    line.send()?;
    let status = line.line()?;
    if status != "HTTP/1.1 200 OK" {
        return Err(format!("unexpected answer of crore: `{status}`").into());
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
