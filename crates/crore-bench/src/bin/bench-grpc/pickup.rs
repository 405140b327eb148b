//! Idle pick-up: a worker waits; the time from a push by the client library until the worker has the job. Measured in
//! turn with its bound: a round trip on a stream of a bare tonic server, and a sync.

use std::path::Path;
use std::time::{Duration, Instant};

use crore_client::{Client, Job, v1};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::client::{QUEUE, start_worker};
use crore_bench::server::BenchServer;
use crore_bench::server::fsync::FsyncProbe;
use crore_bench::server::measurement::{PAYLOAD_BYTES, ServerBench};
use crore_bench::server::pickup::PickupTimes;

/// Constant part of the bound, in microseconds.
const EXTRA_MICROS: f64 = 500.0;

/// Long enough for all threads to sleep.
const REST: Duration = Duration::from_millis(2);

pub(crate) fn measure(bench: &mut ServerBench) {
    let (crore, bare) = (BenchServer::crore(&bench.work_dir), BenchServer::bare());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let file = bench.work_dir.fresh("synced");
    let times = runtime.block_on(take_turns(&crore, &bare, &file, bench.scale.pickups));
    times.report(
        bench,
        "push to a worker's stream, idle, p99",
        "2 bare trips + fdatasync + 0.5 ms",
        EXTRA_MICROS,
    );
}

async fn take_turns(crore: &BenchServer, bare: &BenchServer, file: &Path, n: usize) -> PickupTimes {
    let mut worker = start_worker(crore.address, "one").await;
    let mut other = start_worker(bare.address, "other").await;
    let pusher = Client::connect(format!("http://{}", crore.address)).await.unwrap();
    let file = FsyncProbe::new(file);
    let mut times = PickupTimes::default();
    for nth in 0..n {
        sleep(REST).await;
        let start = Instant::now();
        let push = pusher.push(Job::new(QUEUE).bytes(vec![b'x'; PAYLOAD_BYTES]));
        let (pushed, (job, at)) = tokio::join!(push, async {
            loop {
                if let Some(job) = worker.receive().await.jobs.pop() {
                    return (job, Instant::now());
                }
            }
        });
        assert_eq!(pushed.unwrap().0, job.id);
        times.picked.push(at - start);
        let report = v1::Report {
            id: job.id,
            delivery: job.delivery,
            outcome: Some(v1::report::Outcome::Done(v1::Done::default())),
            ..v1::Report::default()
        };
        worker.send(v1::WorkerSays { finish: vec![report], ..v1::WorkerSays::default() }).await;
        while worker.receive().await.finished.is_empty() {}

        sleep(REST).await;
        let start = Instant::now();
        other.send(v1::WorkerSays::default()).await;
        other.receive().await;
        times.trips.push(start.elapsed());
        times.syncs.push(file.sync(nth));
    }
    times
}
