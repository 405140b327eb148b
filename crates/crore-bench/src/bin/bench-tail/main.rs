//! `cargo xtask bench tail --json FILE`: compares the slowest pushes at a steady rate below the server's maximum with
//! fdatasync on the same disk.
//!
//! Each load runs for a minute against a fresh server with the default retention, so that preparing files, pruning and
//! compacting are part of it. `crore bench` generates the load and measures from the time when a push should begin.
//! Meanwhile this process syncs a file of its own and measures in the same way, so that a pause of the disk counts for
//! both. The disk is also probed without load, before and after. `--discard` repeats the loads with jobs that are
//! deleted when they are done. `--help` lists the options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod load;

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crore_bench::args::BenchArgs;
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::fsync::FsyncProbe;
use crore_bench::server::measurement::{ServerBench, ServerBenchScale, quantile_micros};
use crore_bench::work_dir::WorkDir;

use load::{LOADS, Retention, TailLatency};

/// A push waits for one sync that has begun and for its own; twice that for everything else.
const MAX_SYNCS: f64 = 4.0;
/// Bound of the 99.9th percentile, in milliseconds.
const MAX_P99_9: f64 = 50.0;

fn main() -> ExitCode {
    let discard = Cell::new(false);
    let args = BenchArgs::read("bench-tail", |(option, _)| {
        discard.set(discard.get() || option == "--discard");
        option == "--discard"
    });
    let args = match args {
        Ok(args) => args,
        Err(code) => return code,
    };
    let (scale, span, probe) = if args.quick {
        (ServerBenchScale::QUICK, Duration::from_secs(3), Duration::from_millis(500))
    } else {
        (
            ServerBenchScale { runs: 1, ..ServerBenchScale::FULL },
            Duration::from_secs(60),
            Duration::from_secs(5),
        )
    };
    let mut bench = ServerBench::new(&args.dir(), scale, "tail");
    let disk = DiskProbe(FsyncProbe::new(&bench.work_dir.fresh("probe")));
    // Kept until the end: removed files may be discarded in the background, which delays every sync.
    let mut work_dirs = Vec::new();
    let retentions: &[Retention] = if discard.get() {
        &[Retention::Default, Retention::Discard]
    } else {
        &[Retention::Default]
    };
    for retention in retentions {
        for load in LOADS.iter().filter(|load| args.selects(load.name)) {
            let below = bench.work_dir.path();
            work_dirs.push(WorkDir::new(below, &format!("load-{}", work_dirs.len())));
            let name = format!("{}{}", load.name, retention.suffix());
            bench.work_dir.progress(&name);
            let mut idle = disk.probe_for(probe);
            let work_dir = &work_dirs[work_dirs.len() - 1];
            let (tail, beside) = disk.probe_beside(|| load.run(work_dir, *retention, span));
            idle.extend(disk.probe_for(probe));
            add_rows(&mut bench, &name, tail, &Syncs { beside, idle });
        }
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}

/// Durations of fdatasync on the same disk.
struct Syncs {
    /// At the same time as the load.
    beside: Vec<Duration>,
    /// Before and after the load.
    idle: Vec<Duration>,
}

fn add_rows(bench: &mut ServerBench, name: &str, tail: TailLatency, syncs: &Syncs) {
    let sync = quantile_micros(&syncs.beside, 0.99) / 1e3;
    bench.report.rows.push(ReportRow::compared(
        (format!("{name}: push p99"), "ms"),
        &RunValues(vec![tail.p99 / 1e3]),
        (format!("{MAX_SYNCS} x fdatasync p99"), &RunValues(vec![MAX_SYNCS * sync])),
        Goal::AtMost(1.0),
    ));
    bench.report.rows.push(ReportRow::with_bound(
        format!("{name}: push p99.9"),
        (tail.p99_9 / 1e3, "ms"),
        MAX_P99_9,
    ));
    let TailLatency { p50, max, jobs_per_second, server_cpu_us, .. } = tail;
    bench.report.notes.push(format!(
        "{name}: p50 {p50:.0} µs, maximum {:.1} ms, {jobs_per_second:.0} jobs/s finished, \
         {server_cpu_us:.0} µs of the server's processor a job; fdatasync beside it: {}; without load: {}",
        max / 1e3,
        summary(&syncs.beside),
        summary(&syncs.idle),
    ));
}

fn summary(syncs: &[Duration]) -> String {
    let millis = |quantile| quantile_micros(syncs, quantile) / 1e3;
    let max = syncs.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
    format!(
        "p50 {:.2}, p99 {:.2}, p99.9 {:.2}, maximum {max:.1} ms",
        millis(0.5),
        millis(0.99),
        millis(0.999),
    )
}

/// Interval of the probe: often enough to meet every pause of the disk, seldom enough not to be a load itself.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);

/// Syncs a file of its own at a steady rate.
struct DiskProbe(FsyncProbe);

impl DiskProbe {
    fn probe_for(&self, span: Duration) -> Vec<Duration> {
        let until = Instant::now() + span;
        self.probe_while(|| Instant::now() < until)
    }

    /// Probes the disk while `run` runs.
    fn probe_beside<T>(&self, run: impl FnOnce() -> T) -> (T, Vec<Duration>) {
        let is_running = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let probe = scope.spawn(|| self.probe_while(|| is_running.load(Ordering::Relaxed)));
            let result = run();
            is_running.store(false, Ordering::Relaxed);
            (result, probe.join().unwrap())
        })
    }

    /// Durations from the time when each sync should begin, as for pushes.
    fn probe_while(&self, go_on: impl Fn() -> bool) -> Vec<Duration> {
        let mut syncs = Vec::new();
        let mut due = Instant::now();
        while go_on() {
            self.0.sync(syncs.len());
            syncs.push(due.elapsed());
            due += PROBE_INTERVAL;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        syncs
    }
}
