//! A measurement of the log: its scale, its working directory, its baseline and its report.

use std::path::Path;
use std::time::Duration;

use crate::append_loop::AppendLoop;
use crate::database::Database;
use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until};
use crore_bench::embedded::{EmbeddedStore, PAYLOAD_BYTES};
use crore_bench::machine;
use crore_bench::report::BenchReport;
use crore_bench::work_dir::WorkDir;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogBenchScale {
    /// Number of alternating runs.
    pub(crate) runs: usize,
    /// Duration of a timed run.
    pub(crate) span: Duration,
    pub(crate) backlogs: [u64; 2],
    pub(crate) reopens: [u64; 2],
    pub(crate) churned: u64,
}

impl LogBenchScale {
    pub(crate) const FULL: Self = Self {
        runs: 5,
        span: Duration::from_secs(3),
        backlogs: [100_000, 1_000_000],
        reopens: [1_000_000, 10_000_000],
        churned: 5_000_000,
    };
    pub(crate) const QUICK: Self = Self {
        runs: 3,
        span: Duration::from_millis(200),
        backlogs: [5_000, 50_000],
        reopens: [50_000, 500_000],
        churned: 300_000,
    };
}

/// Average bytes that the log writes per append, with frames and the claims between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendBytes {
    /// A pushed job.
    pub(crate) push: f64,
    /// One of the two appends of a cycle.
    pub(crate) cycle: f64,
}

impl AppendBytes {
    /// Measured on the files of a small store.
    fn of_store(dir: &Path) -> Self {
        const JOBS: u64 = 20_000;
        let store = EmbeddedStore::open(dir);
        let none = machine::written(dir);
        store.push(Until::Begun(JOBS), 64, 1);
        let pushed = machine::written(dir);
        store.cycle(Until::Begun(JOBS), 64);
        let cycled = machine::written(dir);
        store.close();
        let each = |bytes: u64, appends: u64| bytes as f64 / appends as f64;
        let bytes =
            Self { push: each(pushed - none, JOBS), cycle: each(cycled - pushed, 2 * JOBS) };
        assert!(bytes.push > PAYLOAD_BYTES as f64, "a job holds its payload: {bytes:?}");
        bytes
    }
}

#[derive(Debug)]
pub(crate) struct LogBench {
    pub(crate) work_dir: WorkDir,
    pub(crate) scale: LogBenchScale,
    pub(crate) append_bytes: AppendBytes,
    pub(crate) append_loop: AppendLoop,
    pub(crate) report: BenchReport,
}

impl LogBench {
    /// Starts a run in a directory of its own below `below`.
    pub(crate) fn new(below: &Path, scale: LogBenchScale) -> Self {
        let work_dir = WorkDir::new(below, "log");
        let append_bytes = AppendBytes::of_store(&work_dir.fresh("bytes"));
        let append_loop = AppendLoop::prepare(work_dir.path());
        let report =
            BenchReport { facts: machine::facts(work_dir.path()), ..BenchReport::default() };
        Self { work_dir, scale, append_bytes, append_loop, report }
    }

    pub(crate) fn databases(&self) -> [Database; 2] {
        let job_bytes = self.append_bytes.push as usize;
        let (sqlite, redb) = (self.work_dir.fresh("sqlite"), self.work_dir.fresh("redb"));
        [Database::sqlite(&sqlite, job_bytes), Database::redb(&redb, job_bytes)]
    }

    /// Adds a note with the latencies and the processor time of a run.
    pub(crate) fn note(&mut self, what: &str, ran: &RunFigures) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| ran.quantile_millis(share));
        let cpu = ran.cpu_micros_per_job();
        self.report.notes.push(format!(
            "{what}: push answered in p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2} ms; \
             {cpu:.2} µs of processor time a job, callers included (last run)"
        ));
    }
}
