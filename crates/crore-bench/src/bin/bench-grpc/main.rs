//! `cargo xtask bench grpc --json FILE`: the built server with workers that have a stream, and with one push a call
//! beside a bare tonic server; how soon a job reaches a worker; and what many idle workers cost.
//!
//! Every push and every report is synced to the disk before its answer. Clients run on the same machine, in this
//! process. `--only PART` measures the parts whose name has the word, `--dir DIR` puts the store on another file
//! system, and `--quick` tries it out with less of everything. Beside `FILE` lies a text with the machine, the day,
//! the commit and more figures.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod bare_grpc;
mod client;
mod cycle;
mod idle;
mod pickup;
mod push;

use std::process::ExitCode;

use crore_bench::args::Args;
use crore_bench::server::BARE;
use crore_bench::server::measurement::{Bench, Scale};

/// The allocator of the server, for the bare one too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Part = (&'static str, fn(&mut Bench));

const PARTS: [Part; 4] = [
    ("cycle", cycle::measure),
    ("push", push::measure),
    ("pick-up", pickup::measure),
    ("idle", idle::measure),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(BARE) {
        bare_grpc::serve();
        return ExitCode::SUCCESS;
    }
    let args = match Args::read("bench-grpc", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
    let mut bench = Bench::new(&args.dir(), Scale { workers: scale.workers / 5, ..scale }, "grpc");
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.wants(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
