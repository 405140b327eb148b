//! An idle server: a worker polls, somebody pushes; from the request until the worker has the job. Beside
//! it, in turn with it, what it may cost: round trips to a bare server, and a sync of a small append.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::bench::{Bench, within};
use crate::client::{Connection, post};
use crate::server::Server;
use crate::table::{Goal, Row, Runs};

const LATE: f64 = 0.99;
const ROUND_TRIPS: f64 = 2.0;
/// What else it may take, in microseconds.
const MORE: f64 = 1000.0;

/// Long enough for a poll to have arrived, and for everybody to sleep.
const REST: Duration = Duration::from_millis(2);

/// What was measured, in turns.
#[derive(Debug, Default)]
struct Times {
    picked: Vec<Duration>,
    trips: Vec<Duration>,
    syncs: Vec<Duration>,
}

pub(crate) fn measure(bench: &mut Bench) {
    let (crore, bare) = (Server::crore(&bench.place), Server::bare());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let file = bench.place.fresh("synced");
    let times = runtime.block_on(take_turns(&crore, &bare, &file, bench.scale.pickups));
    let [picked, trip, sync] =
        [&times.picked, &times.trips, &times.syncs].map(|times| within(times, LATE));
    let allowed = ROUND_TRIPS.mul_add(trip, sync + MORE);
    bench.report.rows.push(Row::beside(
        ("push to long poll answered, idle, p99", "µs"),
        &Runs(vec![picked]),
        ("2 bare trips + fdatasync + 1 ms", &Runs(vec![allowed])),
        Goal::AtMost(1.0),
    ));
    let all =
        [("pick-up", &times.picked), ("a bare trip", &times.trips), ("fdatasync", &times.syncs)];
    bench.report.notes.extend(all.map(|(name, times)| {
        let [p50, p99] = [0.5, LATE].map(|share| within(times, share));
        format!("{name}: p50 {p50:.0}, p99 {p99:.0} µs")
    }));
}

async fn take_turns(crore: &Server, bare: &Server, file: &Path, n: usize) -> Times {
    let mut worker = Connection::open(crore.address).await;
    let mut pusher = Connection::open(crore.address).await;
    let mut other = Connection::open(bare.address).await;
    let fetch = post("/v1/fetch", r#"{"queues":["work"],"wait":"30s","worker":"bench"}"#);
    let push = post("/v1/jobs", r#"{"queue":"work","kind":"work","payload":"hello"}"#);
    let file = File::create_new(file).unwrap();
    file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let mut times = Times::default();
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

        file.write_all_at(&[7; 512], (nth as u64 * 512) % (1 << 20)).unwrap();
        let start = Instant::now();
        file.sync_data().unwrap();
        times.syncs.push(start.elapsed());
    }
    times
}
