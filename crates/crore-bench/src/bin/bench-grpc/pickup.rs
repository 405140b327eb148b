//! An idle server: a worker waits, somebody pushes by the client that people use; from then until the worker has the
//! job. Beside it, in turn with it, what it may cost: a message there and back on a stream of a bare tonic server, and
//! a sync.

use std::path::Path;
use std::time::{Duration, Instant};

use crore_client::{Client, Job, v1};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::client::{QUEUE, Worker};
use crore_bench::server::Server;
use crore_bench::server::fsync::FsyncProbe;
use crore_bench::server::measurement::{Bench, PAYLOAD_BYTES};
use crore_bench::server::pickup::Times;

/// What else it may take, in microseconds.
const MORE: f64 = 500.0;

/// Long enough for everybody to sleep.
const REST: Duration = Duration::from_millis(2);

pub(crate) fn measure(bench: &mut Bench) {
    let (crore, bare) = (Server::crore(&bench.work_dir), Server::bare());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let file = bench.work_dir.fresh("synced");
    let times = runtime.block_on(take_turns(&crore, &bare, &file, bench.scale.pickups));
    times.report(
        bench,
        "push to a worker's stream, idle, p99",
        "2 bare trips + fdatasync + 0.5 ms",
        MORE,
    );
}

async fn take_turns(crore: &Server, bare: &Server, file: &Path, n: usize) -> Times {
    let mut worker = Worker::start(crore.address, "one").await;
    let mut other = Worker::start(bare.address, "other").await;
    let pusher = Client::connect(format!("http://{}", crore.address)).await.unwrap();
    let file = FsyncProbe::new(file);
    let mut times = Times::default();
    for nth in 0..n {
        sleep(REST).await;
        let start = Instant::now();
        let push = pusher.push(Job::new(QUEUE).bytes(vec![b'x'; PAYLOAD_BYTES]));
        let (pushed, (job, at)) = tokio::join!(push, async {
            loop {
                if let Some(job) = worker.hear().await.jobs.pop() {
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
        worker.say(v1::WorkerSays { finish: vec![report], ..v1::WorkerSays::default() }).await;
        while worker.hear().await.finished.is_empty() {}

        sleep(REST).await;
        let start = Instant::now();
        other.say(v1::WorkerSays::default()).await;
        other.hear().await;
        times.trips.push(start.elapsed());
        times.syncs.push(file.sync(nth));
    }
    times
}
