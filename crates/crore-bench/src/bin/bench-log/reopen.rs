//! The cost of many pending jobs: memory per job, and the time to reopen the store.

use std::path::Path;
use std::time::Instant;

use crate::measurement::LogBench;
use crore_bench::contender::Contender;
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::short;
use crore_bench::machine;
use crore_bench::report::{ReportRow, RunValues};
use crore_bench::work_dir::remove;

const INDEX_BYTES: f64 = 40.0;
const SECONDS: [f64; 2] = [1.0, 5.0];
const EMPTY_MILLIS: f64 = 10.0;

/// Opens the store; returns the seconds until it has counted its jobs.
fn open_timed(dir: &Path, jobs: u64) -> (EmbeddedStore, f64) {
    let start = Instant::now();
    let store = EmbeddedStore::open(dir);
    let count = store.count();
    let seconds = start.elapsed().as_secs_f64();
    assert!(count == jobs, "{count} of {jobs} jobs were returned");
    (store, seconds)
}

/// Memory and reopening of the largest backlog. Runs first, while the process is small.
pub(crate) fn measure_large(bench: &mut LogBench) {
    let jobs = bench.scale.reopens[1];
    let dir = bench.work_dir.fresh("large");
    let before = machine::resident();
    let store = EmbeddedStore::open(&dir);
    let filled = store.fill(jobs);
    let bytes = machine::resident().saturating_sub(before) as f64 / jobs as f64;
    bench
        .work_dir
        .progress(&format!("filled with {}: {bytes:.1} bytes of memory a job", short(jobs)));
    let name = format!("memory of {} pending", short(jobs));
    bench.report.rows.push(ReportRow::with_bound(name, (bytes, "bytes/job"), INDEX_BYTES));
    bench.note(&format!("fill of {}, 4 batches of 1000 in flight", short(jobs)), &filled);
    let disk = machine::disk_use(&dir) as f64 / jobs as f64;
    let rate = filled.rate();
    let note = format!("fill of {}: {rate:.0} jobs/s; {disk:.0} bytes of disk a job", short(jobs));
    bench.report.notes.push(note);
    measure_reopen(bench, store, &dir, 1);
}

/// Reopening of the smaller backlog.
pub(crate) fn measure_small(bench: &mut LogBench) {
    let dir = bench.work_dir.fresh("small");
    let store = EmbeddedStore::open(&dir);
    store.fill(bench.scale.reopens[0]);
    measure_reopen(bench, store, &dir, 0);
}

/// Closes the store and opens it again, several times with its files in the page cache, and once without if the
/// permissions allow it.
fn measure_reopen(bench: &mut LogBench, mut store: EmbeddedStore, dir: &Path, size: usize) {
    let jobs = bench.scale.reopens[size];
    let mut warm = RunValues::default();
    for _ in 0..bench.scale.runs {
        store.close();
        let (open, seconds) = open_timed(dir, jobs);
        store = open;
        bench.work_dir.progress(&format!("reopened {} in {seconds:.3} s", short(jobs)));
        warm.0.push(seconds);
    }
    let name = format!("reopen {}, warm cache", short(jobs));
    bench.report.rows.push(ReportRow::with_bound(name, (warm.median(), "s"), SECONDS[size]));
    store.close();
    if machine::drop_caches() {
        let (open, seconds) = open_timed(dir, jobs);
        bench
            .work_dir
            .progress(&format!("reopened {} in {seconds:.3} s with a cold cache", short(jobs)));
        let name = format!("reopen {}, cold cache", short(jobs));
        let row = ReportRow::with_bound(name, (seconds, "s"), SECONDS[size]).without_goal();
        bench.report.rows.push(row);
        open.close();
    } else {
        bench
            .report
            .notes
            .push(format!("reopen {}: no cold figure, caches cannot be dropped", short(jobs)));
    }
    remove(dir);
}

/// A store without jobs: in a new directory, and reopened.
pub(crate) fn measure_empty(bench: &mut LogBench) {
    let (mut new, mut again) = (RunValues::default(), RunValues::default());
    for _ in 0..bench.scale.runs {
        let dir = bench.work_dir.fresh("empty");
        for runs in [&mut new, &mut again] {
            let (store, seconds) = open_timed(&dir, 0);
            runs.0.push(seconds * 1e3);
            store.close();
        }
    }
    for (name, runs) in [("open an empty store, first time", new), ("open an empty store", again)] {
        bench.report.rows.push(ReportRow::with_bound(name, (runs.median(), "ms"), EMPTY_MILLIS));
    }
}
