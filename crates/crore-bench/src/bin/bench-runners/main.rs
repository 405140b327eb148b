//! `cargo xtask bench runners --json FILE`: compares jobs that the built server runs itself with a loop in this process
//! that does the same work without the server. Also measures the cost of a plugin, and the delay of responses.
//!
//! Every push and finish is synced to disk. Clients run on the same machine, in this process. `FILE` contains the
//! figures; a text file next to it has the machine, the date, the commit and more figures. `--help` lists the options.
//! Needs a C compiler, `cc`, like the build of crore.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod answers;
mod client;
mod command;
mod http;
mod plugin;
mod throughput;

use std::process::ExitCode;

use crore_bench::args::BenchArgs;
use crore_bench::server::measurement::{ServerBench, ServerBenchScale};
use crore_bench::server::{BARE_SERVER_FLAG, bare_http};

/// The allocator of the server, for the baselines too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type RunnerPart = (&'static str, fn(&mut ServerBench));

const PARTS: [RunnerPart; 4] = [
    ("command", command::measure),
    ("http", http::measure),
    ("plugin", plugin::measure),
    ("answers", answers::measure),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(BARE_SERVER_FLAG) {
        bare_http::serve();
        return ExitCode::SUCCESS;
    }
    let args = match BenchArgs::read("bench-runners", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { ServerBenchScale::QUICK } else { ServerBenchScale::FULL };
    let mut bench = ServerBench::new(&args.dir(), scale, "runners");
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.selects(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
