//! `cargo xtask bench engine --json FILE`: compares the engine with its store on the same work in the same run. Also
//! measures the latency and the cost of waiting fetches, and whether a million jobs that are due together, or
//! a hundred thousand that an event releases, delay others.
//!
//! Every push and finish is synced to disk before its response. `FILE` contains the figures; a text file next to it has
//! the machine, the date, the commit and more figures. `--help` lists the options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod cycle;
mod due;
mod engine;
mod event;
mod idle;
mod measurement;
mod pickup;

use std::process::ExitCode;

use crore_bench::args::BenchArgs;
use measurement::{EngineBench, EngineBenchScale};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type EnginePart = (&'static str, fn(&mut EngineBench));

/// Waiting fetches are measured first, while the process is small.
const PARTS: [EnginePart; 5] = [
    ("idle", idle::measure),
    ("pick-up", pickup::measure),
    ("cycle", cycle::measure),
    ("due", due::measure),
    ("event", event::measure),
];

fn main() -> ExitCode {
    let args = match BenchArgs::read("bench-engine", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut bench = EngineBench::new(
        &args.dir(),
        if args.quick { EngineBenchScale::QUICK } else { EngineBenchScale::FULL },
    );
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.selects(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    let took = format!("took {:.0} s in all", bench.work_dir.seconds());
    bench.report.notes.push(took);
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
