//! `cargo xtask bench tail --json FILE`: compares the slowest pushes at a steady rate below the server's maximum with
//! fdatasync on the same disk.
//!
//! Each load runs for a minute against a fresh server with the default retention, so that preparing files, pruning and
//! compacting are part of it. `crore bench` generates the load and measures from the time when a push should begin.
//! The disk is probed without load before and after; `--discard` repeats the loads with jobs that are deleted when they
//! are done. `--help` lists the options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod load;

use std::cell::Cell;
use std::process::ExitCode;
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
    let probe = DiskProbe { disk: FsyncProbe::new(&bench.work_dir.fresh("probe")), span: probe };
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
            let mut syncs = probe.run();
            let tail = load.run(&work_dirs[work_dirs.len() - 1], *retention, span);
            syncs.extend(probe.run());
            add_rows(&mut bench, &name, tail, &syncs);
        }
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}

fn add_rows(bench: &mut ServerBench, name: &str, tail: TailLatency, syncs: &[Duration]) {
    let sync = quantile_micros(syncs, 0.99) / 1e3;
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
    let slowest = syncs.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
    bench.report.notes.push(format!(
        "{name}: p50 {p50:.0} µs, maximum {:.1} ms, {jobs_per_second:.0} jobs/s finished, \
         {server_cpu_us:.0} µs of the server's processor a job; fdatasync p50 {:.0}, p99 {:.0} µs, \
         maximum {slowest:.1} ms",
        max / 1e3,
        quantile_micros(syncs, 0.5),
        sync * 1e3,
    ));
}

/// Probes the disk without load.
struct DiskProbe {
    disk: FsyncProbe,
    span: Duration,
}

impl DiskProbe {
    /// Durations of fdatasync, one every millisecond.
    fn run(&self) -> Vec<Duration> {
        let until = Instant::now() + self.span;
        let mut syncs = Vec::new();
        while Instant::now() < until {
            let took = self.disk.sync(syncs.len());
            syncs.push(took);
            std::thread::sleep(Duration::from_millis(1).saturating_sub(took));
        }
        syncs
    }
}
