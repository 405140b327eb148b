//! Many jobs cycled over a backlog while one in a hundred is never finished, so that every segment has to be compacted:
//! the disk space used meanwhile, and the effect of compaction on commits.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::append_loop::FILE_BYTES;
use crate::measurement::LogBench;
use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until};
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::{SLICES, settle, short};
use crore_bench::machine;
use crore_bench::report::{Goal, ReportRow, RunValues};

const IN_FLIGHT: usize = 1024;
const SPARE_SEGMENTS: u64 = 4;
const P999: f64 = 0.999;

/// The moment at which the files were largest compared with their bound.
#[derive(Debug, Clone, Copy, Default)]
struct PeakDiskUse {
    bytes: f64,
    allowed: f64,
}

impl PeakDiskUse {
    fn or(self, bytes: u64, live_bytes: f64) -> Self {
        let allowed = 2.0f64.mul_add(live_bytes, (SPARE_SEGMENTS * FILE_BYTES) as f64);
        let now = Self { bytes: bytes as f64, allowed };
        if self.allowed == 0.0 || now.bytes / now.allowed > self.bytes / self.allowed {
            now
        } else {
            self
        }
    }
}

/// Measures the files every few milliseconds while something runs.
fn watched(
    dir: &Path,
    live_bytes: impl Fn() -> f64 + Sync,
    mut worst: PeakDiskUse,
    work: impl FnOnce() -> RunFigures,
) -> (RunFigures, PeakDiskUse) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let live_bytes = live_bytes();
                worst = worst.or(machine::disk_use(dir), live_bytes);
                thread::sleep(Duration::from_millis(10));
            }
            worst
        });
        let ran = work();
        over.store(true, Ordering::Relaxed);
        (ran, watcher.join().unwrap())
    })
}

/// Two stores take turns: one that leaves one job in a hundred, and one that leaves none, so that its oldest segments
/// have no live records to move.
pub(crate) fn measure(bench: &mut LogBench) {
    let backlog = bench.scale.backlogs[0];
    let (dir, quiet_dir) = (bench.work_dir.fresh("churned"), bench.work_dir.fresh("quiet"));
    let (store, quiet) = (EmbeddedStore::open(&dir), EmbeddedStore::open(&quiet_dir));
    store.fill(backlog);
    quiet.fill(backlog);
    let (left, job_bytes) = (AtomicU64::new(0), bench.append_bytes.push);
    let live_bytes = || (backlog + left.load(Ordering::Relaxed)) as f64 * job_bytes;
    let (mut with, mut without, mut worst) =
        (RunValues::default(), RunValues::default(), PeakDiskUse::default());
    for run in 1..=bench.scale.runs {
        let slice =
            Until::Begun(bench.scale.churned / (bench.scale.runs as u64 * u64::from(SLICES)));
        let (mut churned, mut calm) = (RunFigures::default(), RunFigures::default());
        for _ in 0..SLICES {
            settle();
            calm = calm.merge(quiet.cycle(slice, IN_FLIGHT));
            settle();
            let churn = || store.churn(slice, IN_FLIGHT, &left);
            let (ran, seen) = watched(&dir, live_bytes, worst, churn);
            churned = churned.merge(ran);
            worst = seen;
        }
        assert_eq!(quiet.count(), backlog, "every pushed job is finished");
        assert_eq!(store.count(), backlog + left.load(Ordering::Relaxed), "and so are the others");
        let late = [&churned, &calm].map(|ran| ran.quantile_millis(P999));
        with.0.push(late[0]);
        without.0.push(late[1]);
        let rates = [churned.rate(), calm.rate()];
        let disk = machine::disk_use(&dir) as f64 / 1e6;
        let figures = format!("jobs/s {rates:.0?}, p99.9 {late:.2?} ms, {disk:.0} MB of disk");
        bench.work_dir.progress(&format!("churn run {run}, with and without any left: {figures}"));
        if run == bench.scale.runs {
            bench.note("churn", &churned);
        }
    }
    rows(bench, worst, (&with, &without));
    store.close();
    quiet.close();
}

fn rows(bench: &mut LogBench, worst: PeakDiskUse, (with, without): (&RunValues, &RunValues)) {
    let name = format!("churn {}, disk at its worst", short(bench.scale.churned));
    let (disk, allowed) =
        (RunValues(vec![worst.bytes / 1e6]), RunValues(vec![worst.allowed / 1e6]));
    let baseline = (format!("2 x live + {SPARE_SEGMENTS} segments"), &allowed);
    bench.report.rows.push(ReportRow::compared((name, "MB"), &disk, baseline, Goal::AtMost(1.0)));
    let name = format!("churn {}, p99.9 of a commit", short(bench.scale.churned));
    let baseline = ("the same, nothing left behind", without);
    bench.report.rows.push(ReportRow::compared((name, "ms"), with, baseline, Goal::AtMost(2.0)));
}
