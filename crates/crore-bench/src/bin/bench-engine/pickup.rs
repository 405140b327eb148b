//! Idle pick-up: a fetch waits; the time from the answer of a push until the fetch has the job. Measured in turn with
//! its bound: one fdatasync of a small append, and the wake-up of a thread through a bare channel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crore::core::Span;
use crore::core::machine::Outcome;
use crore::finish::Finish;
use crore::{Engine, block_on};

use crate::engine::{DrivenEngine, fetch_from};
use crate::measurement::{EngineBench, Latencies};
use crore_bench::embedded;
use crore_bench::report::{Goal, ReportRow, RunValues};

const WAKES: f64 = 10.0;
const P99: f64 = 0.99;

/// Long enough for a thread to be asleep.
const REST: Duration = Duration::from_micros(500);
const FETCH_WAIT: Span = Span::from_secs(60);

/// A file that is written and synced block by block.
struct BlockFsyncProbe {
    file: File,
    at: u64,
}

impl BlockFsyncProbe {
    const BYTES: u64 = 16 << 20;
    const BLOCK: usize = 512;

    fn prepare(bench: &EngineBench) -> Self {
        let file = File::create_new(bench.work_dir.fresh("synced")).unwrap();
        file.write_all_at(&vec![0; Self::BYTES as usize], 0).unwrap();
        file.sync_all().unwrap();
        Self { file, at: 0 }
    }

    fn append(&mut self) -> Duration {
        self.file.write_all_at(&[7; Self::BLOCK], self.at).unwrap();
        self.at = (self.at + Self::BLOCK as u64) % Self::BYTES;
        let start = Instant::now();
        self.file.sync_data().unwrap();
        start.elapsed()
    }
}

pub(crate) fn measure(bench: &mut EngineBench) {
    let driven = DrivenEngine::open(&bench.work_dir.fresh("pick-up"));
    let mut synced = BlockFsyncProbe::prepare(bench);
    let [mut picked, mut syncs, mut wakes] =
        [Latencies::default(), Latencies::default(), Latencies::default()];
    let (fetched, to_pusher) = channel();
    let (to_sleeper, asleep) = channel::<Instant>();
    let (woken, wake_took) = channel();
    thread::scope(|scope| {
        let engine = &driven.engine;
        scope.spawn(move || fetcher(engine, &fetched));
        scope.spawn(move || sleeper(&asleep, &woken));
        for _ in 0..bench.scale.pickups {
            picked.add(pick_up(&driven, &to_pusher));
            syncs.add(synced.append());
            thread::sleep(REST);
            to_sleeper.send(Instant::now()).unwrap();
            wakes.add(wake_took.recv().unwrap());
        }
        drop(to_sleeper);
        engine.stop().unwrap();
    });
    let allowed = WAKES.mul_add(wakes.quantile_micros(0.5), syncs.quantile_micros(P99));
    let row = ReportRow::compared(
        ("idle pick-up, p99", "µs"),
        &RunValues(vec![picked.quantile_micros(P99)]),
        ("fdatasync p99 + 10 wakes p50", &RunValues(vec![allowed])),
        Goal::AtMost(1.0),
    );
    bench.report.rows.push(row);
    let figures = |name: &str, times: &Latencies| {
        let [p50, p99] = [0.5, P99].map(|share| times.quantile_micros(share));
        format!("{name}: p50 {p50:.1}, p99 {p99:.1} µs")
    };
    let all = [("idle pick-up", &picked), ("fdatasync", &syncs), ("a bare channel wake", &wakes)];
    bench.report.notes.extend(all.map(|(name, times)| figures(name, times)));
}

/// Fetches one job after the other, and sends the time of each.
fn fetcher(engine: &Engine, fetched: &Sender<Instant>) {
    loop {
        let jobs = block_on(engine.fetch(fetch_from("work", 1, FETCH_WAIT))).unwrap();
        let at = Instant::now();
        let Some(job) = jobs.first() else { return };
        block_on(engine.finish(Finish::of(job, Outcome::Done { result: None }))).unwrap();
        fetched.send(at).unwrap();
    }
}

/// Sends how long each wake-up took.
fn sleeper(asleep: &Receiver<Instant>, woken: &Sender<Duration>) {
    while let Ok(sent_at) = asleep.recv() {
        woken.send(sent_at.elapsed()).unwrap();
    }
}

/// From the answer of a push until the fetch has the job; zero if the fetch was faster than the answer.
fn pick_up(driven: &DrivenEngine, fetched: &Receiver<Instant>) -> Duration {
    while driven.engine.deliveries().waiting() == 0 {
        thread::yield_now();
    }
    thread::sleep(REST);
    block_on(driven.push_jobs(vec![embedded::job("work")]));
    let answered_at = Instant::now();
    fetched.recv().unwrap().saturating_duration_since(answered_at)
}
