//! `cargo xtask bench engine --json FILE`: the engine beside the store that it runs on, at the same work in
//! the same run; how soon a waiting fetcher has a job; what those who wait cost; and whether a million jobs
//! that are due together hold others up.
//!
//! Every push and finish is synced to the disk before its answer. `--only PART` measures the parts whose
//! name has the word, `--dir DIR` puts the files on another file system, and `--quick` tries it out with less
//! of everything. Beside `FILE` lies a text with the machine, the day, the commit and more figures.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails stops")]

mod bench;
mod cycle;
mod due;
mod idle;
mod pickup;
mod through;

// What drives the log's benchmark drives this one too.
#[path = "../../../crore-store/examples/bench_log/contender.rs"]
mod contender;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/drive.rs"]
mod drive;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/machine.rs"]
mod machine;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/subject.rs"]
mod subject;
#[expect(dead_code, reason = "the log's benchmark uses more of it")]
#[path = "../../../crore-store/examples/bench_log/table.rs"]
mod table;
#[path = "../../../crore-store/examples/bench_log/turns.rs"]
mod turns;

use std::path::{Path, PathBuf};

use bench::{Bench, Scale};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench_engine [--json FILE] [--only PART] [--dir DIR] [--quick]";

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

/// The folder of this build: on the disk that people work on, not in memory.
fn build_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().and_then(Path::parent).unwrap().to_owned()
}

type Part = (&'static str, fn(&mut Bench));

/// What waits is measured first, while the process is small.
const PARTS: [Part; 4] = [
    ("idle", idle::measure),
    ("pick-up", pickup::measure),
    ("cycle", cycle::measure),
    ("due", due::measure),
];

fn main() {
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
    let took = format!("took {:.0} s in all", bench.seconds());
    bench.report.notes.push(took);
    let text = bench.report.text();
    print!("{text}");
    if let Some(file) = args.json {
        std::fs::write(&file, bench.report.json()).unwrap();
        std::fs::write(file.with_extension("txt"), text).unwrap();
    }
}
