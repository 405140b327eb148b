//! `cargo xtask bench grpc --json FILE`: the built server with workers that have a stream, and with one push a call
//! beside a bare tonic server; how soon a job reaches a worker; and what many idle workers cost.
//!
//! Every push and every report is synced to the disk before its answer. Clients run on the same machine, in this
//! process. `--only PART` measures the parts whose name has the word, `--dir DIR` puts the store on another file
//! system, and `--quick` tries it out with less of everything. Beside `FILE` lies a text with the machine, the day,
//! the commit and more figures.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails stops")]

mod bare;
mod cycle;
mod idle;
mod line;
mod pickup;
mod push;

#[path = "../bench_http/bench.rs"]
mod bench;
#[path = "../bench_http/picked.rs"]
mod picked;
#[path = "../bench_http/server.rs"]
mod server;
#[path = "../bench_http/synced.rs"]
mod synced;

#[path = "../../../crore-store/examples/bench_log/args.rs"]
mod args;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/machine.rs"]
mod machine;
#[path = "../../../crore-store/examples/bench_log/place.rs"]
mod place;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/table.rs"]
mod table;

use std::process::ExitCode;

use args::Args;
use bench::{Bench, Scale};

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
    if std::env::args().nth(1).as_deref() == Some(bare::FLAG) {
        bare::serve();
        return ExitCode::SUCCESS;
    }
    let args = match Args::read("bench_grpc", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
    let mut bench = Bench::new(&args.dir(), Scale { workers: scale.workers / 5, ..scale }, "grpc");
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.wants(name)) {
        bench.place.progress(name);
        measure(&mut bench);
    }
    args.tell(&mut bench.report);
    ExitCode::SUCCESS
}
