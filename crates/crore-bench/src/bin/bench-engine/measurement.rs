//! A measurement of the engine: its scale, its working directory and its report.

use std::path::Path;
use std::time::Duration;

use crore_bench::driver::Ran;
use crore_bench::embedded::PAYLOAD_BYTES;
use crore_bench::machine;
use crore_bench::report::Report;
use crore_bench::work_dir::WorkDir;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Alternated runs.
    pub(crate) runs: usize,
    /// Duration of a timed run.
    pub(crate) span: Duration,
    pub(crate) backlog: u64,
    /// How often a fetcher picks a job up.
    pub(crate) pickups: usize,
    pub(crate) fetchers: usize,
    pub(crate) queues: usize,
    /// Jobs that are due together, and how long it may take to push them.
    pub(crate) due: u64,
    pub(crate) ahead: Duration,
}

impl Scale {
    pub(crate) const FULL: Self = Self {
        runs: 5,
        span: Duration::from_secs(3),
        backlog: 100_000,
        pickups: 2000,
        fetchers: 100_000,
        queues: 10_000,
        due: 1_000_000,
        ahead: Duration::from_secs(20),
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
    };
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) work_dir: WorkDir,
    pub(crate) scale: Scale,
    pub(crate) report: Report,
}

impl Bench {
    /// Starts a run in a directory of its own below `below`.
    pub(crate) fn new(below: &Path, scale: Scale) -> Self {
        let work_dir = WorkDir::new(below, "engine");
        let mut report = Report { facts: machine::facts(work_dir.path()), ..Report::default() };
        report.facts.extend([
            "durability: synced before the answer".to_owned(),
            format!("jobs: {PAYLOAD_BYTES}-byte payloads, nothing retained after the finish"),
            format!("runs: {}, alternated; medians", scale.runs),
        ]);
        Self { work_dir, scale, report }
    }

    /// Adds a note with the latencies and the processor time of a run.
    pub(crate) fn note(&mut self, what: &str, ran: &Ran) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| ran.within(share));
        let cpu = ran.cpu_micros_a_job();
        self.report.notes.push(format!(
            "{what}: push answered in p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2} ms; \
             {cpu:.2} µs of processor time a job, callers included (last run)"
        ));
    }
}

/// Times of many single things, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn add(&mut self, span: Duration) {
        self.0.push(span.as_secs_f64() * 1e6);
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The time within which this share of them was over, in microseconds.
    pub(crate) fn within(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get(((sorted.len() as f64 * share) as usize).min(last)).copied().unwrap_or(0.0)
    }
}
