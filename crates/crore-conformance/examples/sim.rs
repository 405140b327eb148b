//! `cargo xtask sim`: simulates the embedded store over many seeds, on all cores, and prints the coverage.
#![expect(clippy::disallowed_methods, reason = "how long many seeds take is real time")]

use std::process::ExitCode;
use std::time::Instant;

use crore_conformance::simulation::{Generation, SeedSweep, SimulatedEmbedded};

const USAGE: &str = "\
usage: sim (--seeds N [--from S] | --seed S) [--generation 1] [--table] [--json FILE]";

/// The command line.
struct SimArgs {
    sweep: SeedSweep,
    table: bool,
    json: Option<String>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args) {
        Some(asked) => simulate(&asked),
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn parse(args: &[String]) -> Option<SimArgs> {
    let (mut from, mut seeds, mut table, mut json) = (0, None, false, None);
    let mut generation = Generation::default();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let mut number = || args.next()?.parse::<u64>().ok();
        match arg {
            "--seed" => (from, seeds) = (number()?, Some(1)),
            "--seeds" => seeds = Some(number()?),
            "--from" => from = number()?,
            "--generation" => generation = Generation::of(number()?)?,
            "--table" => table = true,
            "--json" => json = Some(args.next()?.to_owned()),
            _ => return None,
        }
    }
    let seeds = seeds?;
    let mut sweep = SeedSweep { generation, ..SeedSweep::over(from..from.checked_add(seeds)?) };
    sweep.twice_every = if seeds == 1 { 1 } else { sweep.twice_every };
    Some(SimArgs { sweep, table, json })
}

fn simulate(asked: &SimArgs) -> ExitCode {
    let start = Instant::now();
    let swept = asked.sweep.run(|| SimulatedEmbedded, || false);
    println!("{}", swept.coverage);
    if asked.table {
        println!("{}", swept.coverage.table());
    }
    let (took, runs) = (start.elapsed().as_secs_f64(), swept.coverage.runs as f64);
    println!("{took:.1} s, {:.0} seeds a second", runs / took);
    if let Some(file) = &asked.json
        && let Err(error) = std::fs::write(file, swept.to_json().to_string())
    {
        eprintln!("cannot write `{file}`: {error}");
        return ExitCode::FAILURE;
    }
    if swept.failures.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("{} seeds fail:", swept.failures.len());
    swept
        .failures
        .iter()
        .for_each(|failure| println!("  {}: {}", failure.repeat_command, failure.class()));
    ExitCode::FAILURE
}
