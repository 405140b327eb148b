//! A measurement of a server: its scale, its working directory and its report.

use std::path::Path;
use std::time::Duration;

use crate::machine;
use crate::report::BenchReport;
use crate::work_dir::WorkDir;

/// Length of every payload.
pub const PAYLOAD_BYTES: usize = 250;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub struct ServerBenchScale {
    /// Number of alternating runs.
    pub runs: usize,
    /// Duration of a run, for each side.
    pub span: Duration,
    /// Number of jobs that are picked up one by one.
    pub pickups: usize,
    /// Number of idle workers.
    pub workers: usize,
}

impl ServerBenchScale {
    pub const FULL: Self =
        Self { runs: 5, span: Duration::from_secs(3), pickups: 2000, workers: 10_000 };
    pub const QUICK: Self =
        Self { runs: 3, span: Duration::from_millis(300), pickups: 100, workers: 500 };
}

/// One run of a benchmark.
#[derive(Debug)]
pub struct ServerBench {
    pub work_dir: WorkDir,
    pub scale: ServerBenchScale,
    pub report: BenchReport,
}

impl ServerBench {
    /// Starts a run in a directory of its own below `below`.
    pub fn new(below: &Path, scale: ServerBenchScale, name: &str) -> Self {
        let work_dir = WorkDir::new(below, name);
        let mut report =
            BenchReport { facts: machine::facts(work_dir.path()), ..BenchReport::default() };
        report.facts.extend([
            "durability: synced before the answer".to_owned(),
            format!("jobs: {PAYLOAD_BYTES}-byte payloads; clients on the same machine"),
            format!("runs: {}, alternating; medians", scale.runs),
        ]);
        Self { work_dir, scale, report }
    }
}

/// The quantile `share` of some durations, in microseconds.
pub fn quantile_micros(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).map_or(0.0, |t| t.as_secs_f64() * 1e6)
}
