//! `cargo xtask bench log --json FILE`: compares the embedded store with a bare loop that appends the same bytes with
//! the same syncs, and with SQLite and redb on the same work. Also measures memory, reopening, and the cost of
//! compaction.
//!
//! A call that is awaited is synced to disk before its response. The store and its baseline take turns, in slices of
//! every run; a ratio is the median of the ratios of each run. `--drivers N` sets the number of threads of the callers.
//! `FILE` contains the figures; a text file next to it has the machine, the date, the commit and the latencies.
//! `--help` lists the other options.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod append_loop;
mod churn;
mod cycle;
mod database;
mod measurement;
mod push;
mod redb;
mod reopen;
mod sqlite;

use std::process::ExitCode;
use std::time::Duration;

use crore_bench::args::{BenchArgs, OptionArgs};
use crore_bench::{driver, embedded};
use measurement::{LogBench, LogBenchScale};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn facts(bench: &mut LogBench) {
    let push = bench.append_bytes.push;
    let cycle = bench.append_bytes.cycle;
    let caller = driver::caller_nanos(Duration::from_millis(300));
    let facts = &mut bench.report.facts;
    facts.extend([
        "durability: synced before the answer (crore, SQLite WAL + FULL, redb, bare: fdatasync)"
            .to_owned(),
        format!(
            "jobs: {}-byte payloads, nothing retained after the finish",
            embedded::PAYLOAD_BYTES
        ),
        format!("bytes an append: {push:.0} for a push, {cycle:.0} on average in a cycle"),
        format!(
            "callers: {} threads; one costs {caller:.0} ns an answer by itself",
            driver::drivers()
        ),
        format!("runs: {}, alternating; medians", bench.scale.runs),
    ]);
}

type LogPart = (&'static str, Box<dyn Fn(&mut LogBench)>);

fn parts() -> Vec<LogPart> {
    let mut parts: Vec<LogPart> = vec![
        ("memory and reopen, large", Box::new(reopen::measure_large)),
        ("reopen, small", Box::new(reopen::measure_small)),
        ("open", Box::new(reopen::measure_empty)),
    ];
    for shape in push::SHAPES {
        parts.push((shape.name, Box::new(move |bench| push::measure(bench, shape))));
    }
    parts.push(("cycle", Box::new(cycle::measure)));
    parts.push(("churn", Box::new(churn::measure)));
    parts
}

fn main() -> ExitCode {
    // An option of this benchmark alone: the number of driver threads.
    let drivers = |(word, words): OptionArgs<'_>| {
        let is_known = word == "--drivers";
        if is_known {
            driver::DRIVERS.set(words.next().unwrap().parse().unwrap()).unwrap();
        }
        is_known
    };
    let args = match BenchArgs::read("bench-log [--drivers N]", drivers) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut bench = LogBench::new(
        &args.dir(),
        if args.quick { LogBenchScale::QUICK } else { LogBenchScale::FULL },
    );
    for (name, measure) in parts().into_iter().filter(|(name, _)| args.selects(name)) {
        bench.work_dir.progress(name);
        measure(&mut bench);
    }
    facts(&mut bench);
    let took = format!("took {:.0} s in all", bench.work_dir.seconds());
    bench.report.notes.push(took);
    args.publish(&mut bench.report);
    ExitCode::SUCCESS
}
