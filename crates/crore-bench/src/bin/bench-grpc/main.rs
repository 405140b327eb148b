//! `cargo xtask bench grpc --json FILE`: measures the built server with streaming workers: full cycles, single pushes
//! compared with a bare tonic server, the latency until a worker has a job, and the cost of many idle workers.
//!
//! Every push and report is synced to disk before its response. Clients run on the same machine, in this process.
//! `FILE` contains the figures; a text file next to it has the machine, the date, the commit and more figures. `--help`
//! lists the options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod bare_grpc;
mod client;
mod cycle;
mod idle;
mod pickup;
mod push;

use std::process::ExitCode;

use crore_bench::args::BenchArgs;
use crore_bench::server::BARE_SERVER_FLAG;
use crore_bench::server::measurement::{ServerBench, ServerBenchScale};

/// The allocator of the server, for the bare one too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type GrpcPart = (&'static str, fn(&mut ServerBench));

const PARTS: [GrpcPart; 4] = [
    ("cycle", cycle::measure),
    ("push", push::measure),
    ("pick-up", pickup::measure),
    ("idle", idle::measure),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(BARE_SERVER_FLAG) {
        bare_grpc::serve();
        return ExitCode::SUCCESS;
    }
    let args = match BenchArgs::read("bench-grpc", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { ServerBenchScale::QUICK } else { ServerBenchScale::FULL };
    let mut bench = ServerBench::new(
        &args.dir(),
        ServerBenchScale { workers: scale.workers / 5, ..scale },
        "grpc",
    );
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.selects(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
