//! Many jobs cycled over a backlog while one in a hundred stays for ever, so that no segment dies
//! by itself: what the files occupy meanwhile, and what compaction does to commits.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::bare::FILE_BYTES;
use crate::bench::{Bench, settle, short};
use crate::contender::Contender;
use crate::drive::Until;
use crate::machine;
use crate::subject::Subject;
use crate::table::{Goal, Row, Runs};

const IN_FLIGHT: usize = 1024;
const SPARE_SEGMENTS: u64 = 4;
const LATE: f64 = 0.999;

/// The moment at which the files were largest beside what they may be.
#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    bytes: f64,
    allowed: f64,
}

impl Worst {
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

/// Looks at the files every few milliseconds until told to stop.
fn watch(dir: &Path, live_bytes: impl Fn() -> f64, stop: &AtomicBool, mut worst: Worst) -> Worst {
    while !stop.load(Ordering::Relaxed) {
        let live_bytes = live_bytes();
        worst = worst.or(machine::disk_use(dir), live_bytes);
        thread::sleep(Duration::from_millis(10));
    }
    worst
}

/// Two stores take turns: one that leaves one in a hundred behind, and one that leaves nothing, so
/// that its oldest segments hold nothing that would have to be moved.
pub(crate) fn measure(bench: &mut Bench) {
    let backlog = bench.scale.backlogs[0];
    let (dir, quiet_dir) = (bench.fresh("churned"), bench.fresh("quiet"));
    let (store, quiet) = (Subject::open(&dir), Subject::open(&quiet_dir));
    store.fill(backlog);
    quiet.fill(backlog);
    let (left, job_bytes) = (AtomicU64::new(0), bench.append_bytes.push);
    let live_bytes = || (backlog + left.load(Ordering::Relaxed)) as f64 * job_bytes;
    let (mut with, mut without, mut worst) = (Runs::default(), Runs::default(), Worst::default());
    let each = Until::Begun(bench.scale.churned / bench.scale.runs as u64);
    for run in 1..=bench.scale.runs {
        settle();
        let calm = quiet.cycle(each, IN_FLIGHT);
        assert_eq!(quiet.count(), backlog, "what was pushed is finished");
        without.0.push(calm.within(LATE));
        settle();
        let stop = AtomicBool::new(false);
        let (churned, seen) = thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&dir, live_bytes, &stop, worst));
            let churned = store.churn(each, IN_FLIGHT, &left);
            stop.store(true, Ordering::Relaxed);
            (churned, watcher.join().unwrap())
        });
        worst = seen;
        assert_eq!(
            store.count(),
            backlog + left.load(Ordering::Relaxed),
            "the others are finished"
        );
        with.0.push(churned.within(LATE));
        bench.progress(&format!(
            "churn run {run}: {:.0} jobs/s, p99.9 {:.2} ms; nothing left: {:.0} jobs/s, p99.9 {:.2} ms; \
             {:.0} MB of disk",
            churned.rate(),
            churned.within(LATE),
            calm.rate(),
            calm.within(LATE),
            machine::disk_use(&dir) as f64 / 1e6,
        ));
        if run == bench.scale.runs {
            bench.note("churn", &churned);
        }
    }
    rows(bench, worst, (&with, &without));
    store.close();
    quiet.close();
}

fn rows(bench: &mut Bench, worst: Worst, (with, without): (&Runs, &Runs)) {
    let name = format!("churn {}, disk at its worst", short(bench.scale.churned));
    let (disk, allowed) = (Runs(vec![worst.bytes / 1e6]), Runs(vec![worst.allowed / 1e6]));
    let beside = (format!("2 x live + {SPARE_SEGMENTS} segments"), &allowed);
    bench.report.rows.push(Row::beside((name, "MB"), &disk, beside, Goal::AtMost(1.0)));
    let name = format!("churn {}, p99.9 of a commit", short(bench.scale.churned));
    let beside = ("the same, nothing left behind", without);
    bench.report.rows.push(Row::beside((name, "ms"), with, beside, Goal::AtMost(2.0)));
}
