//! A measurement of the engine: its scale, its working directory and its report.

use std::path::Path;
use std::time::Duration;

use crore_bench::driver::RunFigures;
use crore_bench::embedded::PAYLOAD_BYTES;
use crore_bench::machine;
use crore_bench::report::BenchReport;
use crore_bench::work_dir::WorkDir;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineBenchScale {
    /// Number of alternating runs.
    pub(crate) runs: usize,
    /// Duration of a timed run.
    pub(crate) span: Duration,
    pub(crate) backlog: u64,
    /// Number of picked-up jobs.
    pub(crate) pickups: usize,
    pub(crate) fetchers: usize,
    pub(crate) queues: usize,
    /// Jobs that are due together, and the time allowed for pushing them.
    pub(crate) due: u64,
    pub(crate) ahead: Duration,
    /// Jobs that one event releases.
    pub(crate) waiting: u64,
}

impl EngineBenchScale {
    pub(crate) const FULL: Self = Self {
        runs: 5,
        span: Duration::from_secs(3),
        backlog: 100_000,
        pickups: 2000,
        fetchers: 100_000,
        queues: 10_000,
        due: 1_000_000,
        ahead: Duration::from_secs(20),
        waiting: 100_000,
    };
    pub(crate) const QUICK: Self = Self {
        runs: 3,
        span: Duration::from_millis(300),
        backlog: 5_000,
        pickups: 200,
        fetchers: 10_000,
        queues: 1_000,
        due: 50_000,
        ahead: Duration::from_secs(3),
        waiting: 10_000,
    };
}

#[derive(Debug)]
pub(crate) struct EngineBench {
    pub(crate) work_dir: WorkDir,
    pub(crate) scale: EngineBenchScale,
    pub(crate) report: BenchReport,
}

impl EngineBench {
    /// Starts a run in a directory of its own below `below`.
    pub(crate) fn new(below: &Path, scale: EngineBenchScale) -> Self {
        let work_dir = WorkDir::new(below, "engine");
        let mut report =
            BenchReport { facts: machine::facts(work_dir.path()), ..BenchReport::default() };
        report.facts.extend([
            "durability: synced before the answer".to_owned(),
            format!("jobs: {PAYLOAD_BYTES}-byte payloads, nothing retained after the finish"),
            format!("runs: {}, alternating; medians", scale.runs),
        ]);
        Self { work_dir, scale, report }
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

/// Latencies, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<f64>);

impl Latencies {
    pub(crate) fn add(&mut self, span: Duration) {
        self.0.push(span.as_secs_f64() * 1e6);
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The latency quantile `share`, in microseconds.
    pub(crate) fn quantile_micros(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get(((sorted.len() as f64 * share) as usize).min(last)).copied().unwrap_or(0.0)
    }
}
