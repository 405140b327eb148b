//! What many pending jobs cost: memory for each, and the time to open the store again.

use std::path::Path;
use std::time::Instant;

use crate::measurement::Bench;
use crore_bench::contender::Contender;
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::short;
use crore_bench::machine;
use crore_bench::report::{Row, Runs};
use crore_bench::work_dir::remove;

const INDEX_BYTES: f64 = 40.0;
const SECONDS: [f64; 2] = [1.0, 5.0];
const EMPTY_MILLIS: f64 = 10.0;

/// Seconds until the store is open and says how many jobs it has.
fn opened(dir: &Path, jobs: u64) -> (EmbeddedStore, f64) {
    let start = Instant::now();
    let store = EmbeddedStore::open(dir);
    let count = store.count();
    let seconds = start.elapsed().as_secs_f64();
    assert!(count == jobs, "{count} jobs came back of {jobs}");
    (store, seconds)
}

/// The memory of the largest backlog, and how long it takes to open again. First of all, while the
/// process is small.
pub(crate) fn large(bench: &mut Bench) {
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
    bench.report.rows.push(Row::allowed(name, (bytes, "bytes/job"), INDEX_BYTES));
    bench.note(&format!("fill of {}, 4 batches of 1000 in flight", short(jobs)), &filled);
    let disk = machine::disk_use(&dir) as f64 / jobs as f64;
    let rate = filled.rate();
    let note = format!("fill of {}: {rate:.0} jobs/s; {disk:.0} bytes of disk a job", short(jobs));
    bench.report.notes.push(note);
    again(bench, store, &dir, 1);
}

/// The smaller backlog.
pub(crate) fn small(bench: &mut Bench) {
    let dir = bench.work_dir.fresh("small");
    let store = EmbeddedStore::open(&dir);
    store.fill(bench.scale.reopens[0]);
    again(bench, store, &dir, 0);
}

/// Closes the store and opens it again, several times with its files in the page cache, and once
/// without, if that can be had.
fn again(bench: &mut Bench, mut store: EmbeddedStore, dir: &Path, size: usize) {
    let jobs = bench.scale.reopens[size];
    let mut warm = Runs::default();
    for _ in 0..bench.scale.runs {
        store.close();
        let (open, seconds) = opened(dir, jobs);
        store = open;
        bench.work_dir.progress(&format!("reopened {} in {seconds:.3} s", short(jobs)));
        warm.0.push(seconds);
    }
    let name = format!("reopen {}, warm cache", short(jobs));
    bench.report.rows.push(Row::allowed(name, (warm.median(), "s"), SECONDS[size]));
    store.close();
    if machine::drop_caches() {
        let (open, seconds) = opened(dir, jobs);
        bench
            .work_dir
            .progress(&format!("reopened {} in {seconds:.3} s with a cold cache", short(jobs)));
        let name = format!("reopen {}, cold cache", short(jobs));
        let row = Row::allowed(name, (seconds, "s"), SECONDS[size]).without_goal();
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

/// A store without jobs: in a directory that is not there yet, and opened again.
pub(crate) fn empty(bench: &mut Bench) {
    let (mut new, mut again) = (Runs::default(), Runs::default());
    for _ in 0..bench.scale.runs {
        let dir = bench.work_dir.fresh("empty");
        for runs in [&mut new, &mut again] {
            let (store, seconds) = opened(&dir, 0);
            runs.0.push(seconds * 1e3);
            store.close();
        }
    }
    for (name, runs) in [("open an empty store, first time", new), ("open an empty store", again)] {
        bench.report.rows.push(Row::allowed(name, (runs.median(), "ms"), EMPTY_MILLIS));
    }
}
