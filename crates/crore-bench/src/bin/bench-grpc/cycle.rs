//! Full cycles: one producer that pushes batches, one worker with a hundred slots, by the client that people use.
//! Nothing is left of a job that is done.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crore_client::{Client, Error, Job, Stop, Worker, v1};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::client::QUEUE;
use crore_bench::machine::cpu_seconds;
use crore_bench::report::{Goal, Row, Runs};
use crore_bench::server::Server;
use crore_bench::server::measurement::{Bench, PAYLOAD_BYTES};

const SLOTS: u32 = 100;
const BATCH: usize = 1000;
/// Batches that are on their way at the same time.
const IN_FLIGHT: usize = 4;
/// The producer waits while so many jobs are not finished.
const AHEAD: usize = 20_000;
/// Jobs a second: where we want to be.
const WANTED: f64 = 200_000.0;
/// Of processor time a job, the server's and the client's together.
const MICROS: f64 = 10.0;

/// Which jobs ran, and how often.
struct Ledger {
    ran: Vec<AtomicU64>,
    n: AtomicUsize,
    doubled: AtomicUsize,
    /// Another batch of jobs has run.
    moved: Notify,
}

impl Ledger {
    fn new(most: usize) -> Self {
        let ran = std::iter::repeat_with(AtomicU64::default).take(most.div_ceil(64)).collect();
        Self { ran, n: AtomicUsize::new(0), doubled: AtomicUsize::new(0), moved: Notify::new() }
    }

    fn ran(&self, job: usize) {
        let bit = 1 << (job % 64);
        if self.ran[job / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            self.doubled.fetch_add(1, Ordering::Relaxed);
        }
        if (self.n.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(BATCH) {
            self.moved.notify_one();
        }
    }

    /// Waits until all but so many of these have run.
    async fn behind(&self, pushed: usize, most: usize) {
        while self.n.load(Ordering::Relaxed) + most < pushed {
            self.moved.notified().await;
        }
    }
}

struct Ran {
    jobs: usize,
    span: Duration,
    server: f64,
    client: f64,
}

pub(crate) fn measure(bench: &mut Bench) {
    let crore = Server::crore(&bench.work_dir);
    let (mut rate, mut cpu) = (Runs::default(), Runs::default());
    for run in 1..=bench.scale.runs {
        let ran = cycle(&crore, bench.scale.span);
        let [server, client] = [ran.server, ran.client].map(|cpu| cpu * 1e6 / ran.jobs as f64);
        rate.0.push(ran.jobs as f64 / ran.span.as_secs_f64());
        cpu.0.push(server + client);
        let jobs = ran.jobs as f64 / ran.span.as_secs_f64();
        let said = format!(
            "cycle {run}: {jobs:.0} jobs/s; processor time a job: server {server:.2}, client {client:.2} µs"
        );
        bench.work_dir.progress(&said);
        bench.report.notes.push(said);
    }
    let [wanted, allowed] = [WANTED, MICROS].map(|figure| Runs(vec![figure; rate.0.len()]));
    bench.report.rows.extend([
        Row::beside(
            ("full cycle, one producer, one worker with 100 slots", "jobs/s"),
            &rate,
            ("where we want to be", &wanted),
            Goal::AtLeast(1.0),
        ),
        Row::beside(
            ("the same: processor time a job, client included", "µs"),
            &cpu,
            ("what is allowed", &allowed),
            Goal::AtMost(1.0),
        ),
    ]);
}

/// Producer and worker each on a thread of their own, as if they were two programs.
fn cycle(crore: &Server, span: Duration) -> Ran {
    let address = format!("http://{}", crore.address);
    let ledger = Arc::new(Ledger::new(span.as_secs_f64() as usize * 1_000_000 + 1_000_000));
    let stop = OnceLock::new();
    thread::scope(|scope| {
        scope.spawn(|| here(work(&address, &ledger, &stop)));
        here(async {
            let client = Client::connect(&address).await.unwrap();
            let (server, own, start) = (crore.cpu_seconds(), cpu_seconds(), Instant::now());
            let jobs = produce(&client, &ledger, start + span).await;
            ledger.behind(jobs, 0).await;
            let span = start.elapsed();
            let (server, client) = (crore.cpu_seconds() - server, cpu_seconds() - own);
            stop.get().map(Stop::stop);
            assert_eq!(ledger.doubled.load(Ordering::Relaxed), 0, "every job runs once");
            Ran { jobs, span, server, client }
        })
    })
}

fn here<T>(task: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(task)
}

/// Works until it is stopped.
async fn work(address: &str, ledger: &Arc<Ledger>, stop: &OnceLock<Stop>) {
    let client = Client::connect(address).await.unwrap();
    let ledger = Arc::clone(ledger);
    let worker = Worker::new(&client).slots(SLOTS).handle(QUEUE, move |job| {
        let ledger = Arc::clone(&ledger);
        async move {
            let number = job.payload().first_chunk().unwrap();
            ledger.ran(u64::from_le_bytes(*number) as usize);
            Ok::<_, Error>(())
        }
    });
    stop.get_or_init(|| worker.stopper());
    worker.run().await.unwrap();
}

/// Pushes batches until then; gives how many jobs that were.
async fn produce(client: &Client, ledger: &Ledger, until: Instant) -> usize {
    let (mut pushed, mut under_way) = (0, FuturesUnordered::new());
    while Instant::now() < until {
        let jobs: Vec<Job> = (pushed..pushed + BATCH)
            .map(|number| {
                let mut payload = vec![b'x'; PAYLOAD_BYTES];
                payload[..8].copy_from_slice(&(number as u64).to_le_bytes());
                Job::new(QUEUE).bytes(payload).retain(v1::Retain::Nothing)
            })
            .collect();
        pushed += BATCH;
        under_way.push(client.push_all(jobs));
        if under_way.len() == IN_FLIGHT {
            under_way.next().await.unwrap().unwrap();
        }
        ledger.behind(pushed, AHEAD).await;
    }
    while let Some(answered) = under_way.next().await {
        answered.unwrap();
    }
    pushed
}
