//! `cargo xtask bench http --json FILE`: the built server beside a bare hyper server that answers 200 to
//! the same requests, each a process of its own; how soon a job reaches a worker that polls; and what many
//! workers that wait cost.
//!
//! Every push is synced to the disk before its answer. Clients run on the same machine, in this process.
//! `--only PART` measures the parts whose name has the word, `--dir DIR` puts the store on another file
//! system, and `--quick` tries it out with less of everything. Beside `FILE` lies a text with the machine,
//! the day, the commit and more figures.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod client;
mod idle;
mod pickup;
mod push;

use std::process::ExitCode;

use crore_bench::args::Args;
use crore_bench::server::measurement::{Bench, Scale};
use crore_bench::server::{BARE, bare_http};

/// The allocator of the server, for the bare one too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Part = (&'static str, fn(&mut Bench));

const PARTS: [Part; 3] =
    [("push", push::measure), ("pick-up", pickup::measure), ("idle", idle::measure)];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(BARE) {
        bare_http::serve();
        return ExitCode::SUCCESS;
    }
    let args = match Args::read("bench-http", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut bench =
        Bench::new(&args.dir(), if args.quick { Scale::QUICK } else { Scale::FULL }, "http");
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.wants(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
