//! `cargo xtask bench http --json FILE`: the built server beside a bare hyper server that answers 200 to
//! the same requests, each a process of its own; how soon a job reaches a worker that polls; and what many
//! workers that wait cost.
//!
//! Every push is synced to the disk before its answer. Clients run on the same machine, in this process.
//! `--only PART` measures the parts whose name has the word, `--dir DIR` puts the store on another file
//! system, and `--quick` tries it out with less of everything. Beside `FILE` lies a text with the machine,
//! the day, the commit and more figures.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails stops")]

mod bare;
mod bench;
mod client;
mod idle;
mod pickup;
mod push;
mod server;

#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/machine.rs"]
mod machine;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/table.rs"]
mod table;

use std::path::{Path, PathBuf};

use bench::{Bench, Scale};

/// The allocator of the server, for the bare one too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench_http [--json FILE] [--only PART] [--dir DIR] [--quick]";

/// What the command line asks for.
#[derive(Default)]
struct Args {
    json: Option<PathBuf>,
    only: Option<String>,
    dir: Option<PathBuf>,
    quick: bool,
}

fn args() -> Args {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => args.json = words.next().map(PathBuf::from),
            "--only" => args.only = words.next(),
            "--dir" => args.dir = words.next().map(PathBuf::from),
            "--quick" => args.quick = true,
            _ => panic!("{USAGE}"),
        }
    }
    args
}

/// The folder of this build: on the disk that people work on, not in memory; the server lies there too.
fn build_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().and_then(Path::parent).unwrap().to_owned()
}

type Part = (&'static str, fn(&mut Bench));

const PARTS: [Part; 3] =
    [("push", push::measure), ("pick-up", pickup::measure), ("idle", idle::measure)];

fn main() {
    if std::env::args().nth(1).as_deref() == Some(bare::FLAG) {
        return bare::serve();
    }
    let args = args();
    let below = args.dir.unwrap_or_else(build_dir);
    let mut bench = Bench::new(&below, if args.quick { Scale::QUICK } else { Scale::FULL });
    if args.quick {
        let quick = "QUICK: less of everything, to try it out; no figure counts";
        bench.report.facts.insert(0, quick.to_owned());
    }
    for (name, measure) in PARTS {
        if args.only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            bench.progress(name);
            measure(&mut bench);
        }
    }
    let text = bench.report.text();
    print!("{text}");
    if let Some(file) = args.json {
        std::fs::write(&file, bench.report.json()).unwrap();
        std::fs::write(file.with_extension("txt"), text).unwrap();
    }
}
