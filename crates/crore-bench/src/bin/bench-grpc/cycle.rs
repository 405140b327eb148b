//! Full cycles by the client library: one producer that pushes batches, and one worker with a hundred slots. Finished
//! jobs are not retained.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crore_client::{Client, Error, Job, StopHandle, Worker, v1};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::client::QUEUE;
use crore_bench::machine::cpu_seconds;
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::{PAYLOAD_BYTES, ServerBench};

const SLOTS: u32 = 100;
const BATCH: usize = 1000;
/// Batches in flight.
const IN_FLIGHT: usize = 4;
/// The producer pauses while this many jobs are unfinished.
const MAX_UNFINISHED: usize = 20_000;
/// Goal, in jobs per second.
const GOAL_JOBS_PER_SECOND: f64 = 200_000.0;
/// Goal, in microseconds of processor time per job, server and client together.
const GOAL_CPU_MICROS: f64 = 10.0;

/// Which jobs ran, and how often.
struct RunLedger {
    ran: Vec<AtomicU64>,
    n: AtomicUsize,
    doubled: AtomicUsize,
    /// Notified when another batch of jobs has run.
    moved: Notify,
}

impl RunLedger {
    fn new(max: usize) -> Self {
        let ran = std::iter::repeat_with(AtomicU64::default).take(max.div_ceil(64)).collect();
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

    /// Waits until all but `max` of the pushed jobs have run.
    async fn wait_until_behind(&self, pushed: usize, max: usize) {
        while self.n.load(Ordering::Relaxed) + max < pushed {
            self.moved.notified().await;
        }
    }
}

struct CycleFigures {
    jobs: usize,
    span: Duration,
    server: f64,
    client: f64,
}

pub(crate) fn measure(bench: &mut ServerBench) {
    let crore = BenchServer::crore(&bench.work_dir);
    let (mut rate, mut cpu) = (RunValues::default(), RunValues::default());
    for run in 1..=bench.scale.runs {
        let ran = cycle(&crore, bench.scale.span);
        let [server, client] = [ran.server, ran.client].map(|cpu| cpu * 1e6 / ran.jobs as f64);
        rate.0.push(ran.jobs as f64 / ran.span.as_secs_f64());
        cpu.0.push(server + client);
        let jobs = ran.jobs as f64 / ran.span.as_secs_f64();
        let line = format!(
            "cycle {run}: {jobs:.0} jobs/s; processor time a job: server {server:.2}, client {client:.2} µs"
        );
        bench.work_dir.progress(&line);
        bench.report.notes.push(line);
    }
    let [goal, allowed] =
        [GOAL_JOBS_PER_SECOND, GOAL_CPU_MICROS].map(|figure| RunValues(vec![figure; rate.0.len()]));
    bench.report.rows.extend([
        ReportRow::compared(
            ("full cycle, one producer, one worker with 100 slots", "jobs/s"),
            &rate,
            ("goal", &goal),
            Goal::AtLeast(1.0),
        ),
        ReportRow::compared(
            ("the same: processor time a job, client included", "µs"),
            &cpu,
            ("budget", &allowed),
            Goal::AtMost(1.0),
        ),
    ]);
}

/// Runs producer and worker on threads of their own, as if they were two programs.
fn cycle(crore: &BenchServer, span: Duration) -> CycleFigures {
    let address = format!("http://{}", crore.address);
    let ledger = Arc::new(RunLedger::new(span.as_secs_f64() as usize * 1_000_000 + 1_000_000));
    let stop = OnceLock::new();
    thread::scope(|scope| {
        scope.spawn(|| block_on_here(work(&address, &ledger, &stop)));
        block_on_here(async {
            let client = Client::connect(&address).await.unwrap();
            let (server, own, start) = (crore.cpu_seconds(), cpu_seconds(), Instant::now());
            let jobs = produce(&client, &ledger, start + span).await;
            ledger.wait_until_behind(jobs, 0).await;
            let span = start.elapsed();
            let (server, client) = (crore.cpu_seconds() - server, cpu_seconds() - own);
            stop.get().map(StopHandle::stop);
            assert_eq!(ledger.doubled.load(Ordering::Relaxed), 0, "every job runs once");
            CycleFigures { jobs, span, server, client }
        })
    })
}

fn block_on_here<T>(task: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(task)
}

/// Works until it is stopped.
async fn work(address: &str, ledger: &Arc<RunLedger>, stop: &OnceLock<StopHandle>) {
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

/// Pushes batches until `until`; returns the number of jobs.
async fn produce(client: &Client, ledger: &RunLedger, until: Instant) -> usize {
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
        ledger.wait_until_behind(pushed, MAX_UNFINISHED).await;
    }
    while let Some(answered) = under_way.next().await {
        answered.unwrap();
    }
    pushed
}
