//! `cargo xtask bench engine --json FILE`: the engine beside the store that it runs on, at the same work in
//! the same run; how soon a waiting fetcher has a job; what those who wait cost; and whether a million jobs
//! that are due together hold others up.
//!
//! Every push and finish is synced to the disk before its answer. `--only PART` measures the parts whose
//! name has the word, `--dir DIR` puts the files on another file system, and `--quick` tries it out with less
//! of everything. Beside `FILE` lies a text with the machine, the day, the commit and more figures.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod cycle;
mod due;
mod engine;
mod idle;
mod measurement;
mod pickup;

use std::process::ExitCode;

use crore_bench::args::Args;
use measurement::{Bench, Scale};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Part = (&'static str, fn(&mut Bench));

/// What waits is measured first, while the process is small.
const PARTS: [Part; 4] = [
    ("idle", idle::measure),
    ("pick-up", pickup::measure),
    ("cycle", cycle::measure),
    ("due", due::measure),
];

fn main() -> ExitCode {
    let args = match Args::read("bench-engine", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut bench = Bench::new(&args.dir(), if args.quick { Scale::QUICK } else { Scale::FULL });
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.wants(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    let took = format!("took {:.0} s in all", bench.work_dir.seconds());
    bench.report.notes.push(took);
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
