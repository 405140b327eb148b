//! `cargo xtask bench http --json FILE`: compares the built server with a bare hyper server that answers 200 to the
//! same requests, each in its own process. Also measures the latency until a polling worker has a job, and the cost of
//! many waiting workers.
//!
//! Every push is synced to disk before its response. Clients run on the same machine, in this process. `FILE` contains
//! the figures; a text file next to it has the machine, the date, the commit and more figures. `--help` lists the
//! options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod client;
mod idle;
mod pickup;
mod push;

use std::process::ExitCode;

use crore_bench::args::BenchArgs;
use crore_bench::server::measurement::{ServerBench, ServerBenchScale};
use crore_bench::server::{BARE_SERVER_FLAG, bare_http};

/// The allocator of the server, for the bare one too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type HttpPart = (&'static str, fn(&mut ServerBench));

const PARTS: [HttpPart; 3] =
    [("push", push::measure), ("pick-up", pickup::measure), ("idle", idle::measure)];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(BARE_SERVER_FLAG) {
        bare_http::serve();
        return ExitCode::SUCCESS;
    }
    let args = match BenchArgs::read("bench-http", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut bench = ServerBench::new(
        &args.dir(),
        if args.quick { ServerBenchScale::QUICK } else { ServerBenchScale::FULL },
        "http",
    );
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.selects(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
