//! `cargo xtask bench store --json FILE`: compares the memory store with a `BTreeMap` and a `VecDeque` that make the
//! same moves without checks. Also measures the cost of claims and promotions with a large backlog, the memory of the
//! index, and searches by index.
//!
//! It runs on the default allocator. `--quick` runs a twentieth of the work, once.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod backlog;
mod calls;
mod cycle;
mod index;

use std::path::Path;
use std::process::ExitCode;

use crore_bench::args::BenchArgs;
use crore_bench::machine;
use crore_bench::report::{BenchReport, ReportRow};

use crore_core::NewJob;

use backlog::BacklogKind;

/// Bytes of index that a waiting job may take.
const INDEX_BYTES: f64 = 40.0;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
struct StoreBenchScale {
    /// Number of alternating runs.
    runs: usize,
    /// Divides every number of jobs.
    part: usize,
}

impl StoreBenchScale {
    const FULL: Self = Self { runs: 5, part: 1 };
    const QUICK: Self = Self { runs: 1, part: 20 };

    const fn of(self, jobs: usize) -> usize {
        jobs / self.part
    }
}

/// Bytes of index that a fair key may take, besides its jobs.
const FAIR_KEY_BYTES: f64 = 200.0;

/// Bytes of index for each of ten million waiting jobs.
fn index_bytes(scale: StoreBenchScale) -> f64 {
    let pattern = calls::job("q", "k");
    bytes_per_job(scale.of(10_000_000), |_| pattern.clone())
}

/// Bytes of index for each of a million fair keys with one waiting job, without the job.
fn fair_key_bytes(scale: StoreBenchScale) -> f64 {
    let jobs = scale.of(1_000_000);
    let one_key = bytes_per_job(jobs, |_| calls::fair_job(0));
    bytes_per_job(jobs, calls::fair_job) - one_key
}

/// Bytes of index that an indexed field of a job may take.
const INDEXED_BYTES: f64 = 72.0;

/// Bytes of index for an indexed field of each of a million waiting jobs.
fn indexed_bytes(scale: StoreBenchScale) -> f64 {
    let jobs = scale.of(1_000_000);
    let pattern = calls::job("q", "k");
    let plain = bytes_per_job(jobs, |_| pattern.clone());
    bytes_per_job(jobs, index::indexed_job) - plain
}

fn bytes_per_job(jobs: usize, job: impl Fn(u64) -> NewJob) -> f64 {
    let before = machine::resident();
    let index = crore_store::measure::index_of(jobs as u64, job).unwrap();
    let bytes = machine::resident() - before;
    drop(index);
    bytes as f64 / jobs as f64
}

fn main() -> ExitCode {
    let args = match BenchArgs::read("bench-store", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { StoreBenchScale::QUICK } else { StoreBenchScale::FULL };
    let mut report =
        BenchReport { facts: machine::facts(Path::new(".")), ..BenchReport::default() };
    // First, while the process is small.
    let name = "index of a waiting job";
    if args.selects(name) {
        report.rows.push(ReportRow::with_bound(name, (index_bytes(scale), "bytes"), INDEX_BYTES));
    }
    let name = "index of a fair key";
    if args.selects(name) {
        let bytes = (fair_key_bytes(scale), "bytes");
        report.rows.push(ReportRow::with_bound(name, bytes, FAIR_KEY_BYTES));
    }
    let name = "index of an indexed field";
    if args.selects(name) {
        let bytes = (indexed_bytes(scale), "bytes");
        report.rows.push(ReportRow::with_bound(name, bytes, INDEXED_BYTES));
    }
    if args.selects("push, claim and finish") {
        report.rows.extend(cycle::measure(scale));
    }
    for (name, filled) in [
        ("claim, 1M blocked behind a limit", BacklogKind::Blocked),
        ("claim, 10k lanes behind", BacklogKind::Lanes { behind: true }),
        ("claim, 10k lanes in turn", BacklogKind::Lanes { behind: false }),
        ("claim, 10M pending", BacklogKind::Pending),
    ] {
        if args.selects(name) {
            report.rows.push(backlog::claim_row(name, scale, filled));
        }
    }
    let name = "claim, 1M fair keys in turn";
    if args.selects(name) {
        report.rows.push(backlog::fair_row(name, scale));
    }
    if args.selects("promote, 1M not due") {
        report.rows.push(backlog::promote_row("promote, 1M not due", scale));
    }
    let name = "claim, 10k expired in front";
    if args.selects(name) {
        report.rows.push(backlog::expired_row(name, scale));
    }
    let name = "push, one indexed field";
    if args.selects(name) {
        report.rows.push(index::push_row(name, scale, &args.dir()));
    }
    let name = "first page by index, 10M jobs";
    if args.selects(name) {
        report.rows.push(index::search_row(name, scale, &args.dir()));
    }
    args.publish(&mut report);
    ExitCode::SUCCESS
}
