//! `cargo xtask bench ui --json FILE`: the pages of the Web UI on a large store, while jobs flow.
//!
//! One built server has a million jobs in 10,000 queues, and 1,000 workers that are connected by a stream. Measured:
//!
//! - the first byte of each page while `crore bench` pushes and finishes 10,000 jobs per second;
//! - the same pages without load, compared with a store of 10,000 jobs: a page that reads all jobs would be slower;
//! - the bytes of a first load, as the server sends them;
//! - the server's processor time for 100 open live pages, at 10,000 jobs per second;
//! - the full cycle with 10 open live pages, compared with the cycle without any.
//!
//! An open live page does what `live.js` does: it listens to ticks, and loads the page again on each. Everything runs on
//! this machine. `--help` lists the options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod connection;
mod cost;
mod first_byte;
mod first_load;
mod live_pages;
mod load;
mod set_up;

use std::process::ExitCode;
use std::time::Duration;

use crore_bench::args::BenchArgs;
use crore_bench::interleave::short;
use crore_bench::machine;
use crore_bench::report::BenchReport;
use crore_bench::server::BenchServer;
use crore_bench::work_dir::WorkDir;

use set_up::{SampleData, WaitingWorkers};

/// Amount of work.
#[derive(Debug, Clone, Copy)]
struct UiScale {
    /// Jobs of the small store, and of the large one.
    few: usize,
    many: usize,
    queues: usize,
    workers: usize,
    /// Jobs per second.
    rate: u32,
    /// Requests of each page without load.
    requests: usize,
    /// Duration of the requests under load.
    loaded: Duration,
    /// Duration of each turn with or without open pages, and the number of turns of each.
    turn: Duration,
    turns: usize,
}

impl UiScale {
    const FULL: Self = Self {
        few: 10_000,
        many: 1_000_000,
        queues: 10_000,
        workers: 1000,
        rate: 10_000,
        requests: 30,
        loaded: Duration::from_secs(60),
        turn: Duration::from_secs(10),
        turns: 4,
    };
    const QUICK: Self = Self {
        few: 1000,
        many: 5000,
        queues: 1000,
        workers: 20,
        rate: 500,
        requests: 3,
        loaded: Duration::from_secs(3),
        turn: Duration::from_secs(3),
        turns: 1,
    };
}

/// One run.
struct UiBench {
    scale: UiScale,
    work_dir: WorkDir,
    server: BenchServer,
    data: SampleData,
    report: BenchReport,
}

type UiPart = (&'static str, fn(&mut UiBench));

const PARTS: [UiPart; 4] = [
    ("first byte", first_byte::under_load),
    ("first load", first_load::measure),
    ("live pages", cost::live_pages),
    ("cycle", cost::cycle),
];

fn main() -> ExitCode {
    let args = match BenchArgs::read("bench-ui", |_| false) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let scale = if args.quick { UiScale::QUICK } else { UiScale::FULL };
    let work_dir = WorkDir::new(&args.dir(), "ui");
    let mut report =
        BenchReport { facts: machine::facts(work_dir.path()), ..BenchReport::default() };
    report.facts.extend([
        "durability: synced before the answer".to_owned(),
        format!(
            "store: {} jobs in {} queues, {} connected workers; load: {} jobs/s by `crore bench`",
            short(scale.many as u64),
            short(scale.queues as u64),
            short(scale.workers as u64),
            scale.rate
        ),
        "clients on the same machine; no compression".to_owned(),
    ]);
    let server = BenchServer::crore(&work_dir);
    let mut data = SampleData::new(server.address, scale.queues);
    data.define();
    data.push(scale.few);
    let workers = WaitingWorkers::start(server.address, scale.workers, scale.queues);
    let mut bench = UiBench { scale, work_dir, server, data, report };
    bench.work_dir.progress("pages of a small store");
    let is_compared = args.selects("scan");
    let small = is_compared.then(|| first_byte::at_rest(&bench));
    bench.work_dir.progress("pushing jobs");
    bench.data.push(scale.many);
    if let Some(small) = small {
        bench.work_dir.progress("pages of the large store");
        first_byte::compare(&mut bench, &small);
    }
    for (name, measure) in PARTS.into_iter().filter(|(name, _)| args.selects(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    workers.stop();
    bench.report.notes.push(format!(
        "memory of the server at the end: {:.0} MB; the run took {:.0} s",
        bench.server.resident() as f64 / 1e6,
        bench.work_dir.seconds()
    ));
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
