//! Pick-up latency of an idle server: the time from a push request until a worker that long-polls has the job. Measured
//! in turn with its bound: round trips to a bare server, and a sync of a small append.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::client::{BareConnection, post};
use crore_bench::server::BenchServer;
use crore_bench::server::fsync::FsyncProbe;
use crore_bench::server::measurement::ServerBench;
use crore_bench::server::pickup::PickupTimes;

/// Constant part of the bound, in microseconds.
const EXTRA_MICROS: f64 = 1000.0;

/// Long enough for a poll to arrive and for all threads to sleep.
const REST: Duration = Duration::from_millis(2);

pub(crate) fn measure(bench: &mut ServerBench) {
    let (crore, bare) = (BenchServer::crore(&bench.work_dir), BenchServer::bare());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let file = bench.work_dir.fresh("synced");
    let times = runtime.block_on(take_turns(&crore, &bare, &file, bench.scale.pickups));
    times.report(
        bench,
        "push to long poll answered, idle, p99",
        "2 bare trips + fdatasync + 1 ms",
        EXTRA_MICROS,
    );
}

async fn take_turns(crore: &BenchServer, bare: &BenchServer, file: &Path, n: usize) -> PickupTimes {
    let mut worker = BareConnection::open(crore.address).await;
    let mut pusher = BareConnection::open(crore.address).await;
    let mut other = BareConnection::open(bare.address).await;
    let fetch = post("/v1/fetch", r#"{"queues":["work"],"wait":"30s","worker":"bench"}"#);
    let push = post("/v1/jobs", r#"{"queue":"work","kind":"work","payload":"hello"}"#);
    let file = FsyncProbe::new(file);
    let mut times = PickupTimes::default();
    for nth in 0..n {
        worker.send(&fetch).await;
        sleep(REST).await;
        let start = Instant::now();
        pusher.send(&push).await;
        let (_, at) = tokio::join!(pusher.answer(), async {
            let jobs = worker.answer().await;
            assert!(jobs.contains("hello"), "a worker gets the job: {jobs}");
            Instant::now()
        });
        times.picked.push(at - start);

        sleep(REST).await;
        let start = Instant::now();
        other.call(&push).await;
        times.trips.push(start.elapsed());
        times.syncs.push(file.sync(nth));
    }
    times
}
