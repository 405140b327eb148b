//! `cargo xtask bench runners --json FILE`: jobs that the built server runs by itself, beside a loop in this process
//! that does the same work without it; what a plugin costs; and how soon somebody who waits has the answer.
//!
//! Every push and every end is synced to the disk. Whoever pushes and waits runs on the same machine, in this
//! process. `--only PART` measures the parts whose name has the word, `--dir DIR` puts the store on another file
//! system, and `--quick` tries it out with less of everything. Beside `FILE` lies a text with the machine, the day,
//! the commit and more figures. It needs a compiler for C, `cc`, as building crore does.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod answers;
mod client;
mod command;
mod http;
mod plugin;
mod throughput;

use std::process::ExitCode;

use crore_bench::args::Args;
use crore_bench::server::measurement::{Bench, Scale};
use crore_bench::server::{BARE, bare_http};

/// The allocator of the server, for what stands beside it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Part = (&'static str, fn(&mut Bench));

const PARTS: [Part; 4] = [
    ("command", command::measure),
    ("http", http::measure),
    ("plugin", plugin::measure),
    ("answers", answers::measure),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(BARE) {
        bare_http::serve();
        return ExitCode::SUCCESS;
    }
    let args = match Args::read("bench-runners", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
    let mut bench = Bench::new(&args.dir(), scale, "runners");
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.wants(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
