//! `cargo xtask sim`: the simulator over many seeds, on all cores, and what they have reached.
#![expect(clippy::disallowed_methods, reason = "how long many seeds take is real time")]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crore_store::simulation::{Coverage, Failure, OnLog, run, run_twice};

const USAGE: &str = "usage: sim --seeds N [--from S] | sim --seed S";
/// Each so-many-th seed is run twice, to see that nothing but the seed has a say.
const TWICE: u64 = 10;
/// After so many failing seeds there is enough to look at.
const ENOUGH: usize = 40;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let seeds = match args[..] {
        ["--seed", seed] => number(seed).map(|seed| seed..seed.saturating_add(1)),
        ["--seeds", n] => number(n).map(|n| 0..n),
        ["--seeds", n, "--from", from] => {
            number(n).zip(number(from)).map(|(n, from)| from..from.saturating_add(n))
        }
        _ => None,
    };
    match seeds {
        Some(seeds) => simulate(&seeds),
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(seeds: &Range<u64>) -> ExitCode {
    let start = Instant::now();
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(Coverage::default()));
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(seeds, &next, &sum, &failures));
        }
    });
    let coverage = sum.into_inner().unwrap_or_default();
    println!("{coverage}");
    let (took, runs) = (start.elapsed().as_secs_f64(), coverage.runs as f64);
    println!("{took:.1} s, {:.0} seeds a second", runs / took);
    let failures = failures.into_inner().unwrap_or_default();
    if failures.is_empty() {
        return ExitCode::SUCCESS;
    }
    let seeds: Vec<u64> = failures.iter().map(|failure| failure.config.seed).collect();
    println!("{} seeds fail, of them: {seeds:?}", failures.len());
    ExitCode::FAILURE
}

fn work(
    seeds: &Range<u64>,
    next: &AtomicU64,
    sum: &Mutex<Coverage>,
    failures: &Mutex<Vec<Failure>>,
) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let enough = failures.lock().map_or(true, |failures| failures.len() >= ENOUGH);
        if seed >= seeds.end || enough {
            return;
        }
        let twice = seed.is_multiple_of(TWICE) || seeds.end - seeds.start == 1;
        let report = if twice { run_twice(seed, || OnLog) } else { run(seed, &mut OnLog) };
        match report {
            Ok(report) => {
                if let Ok(mut sum) = sum.lock() {
                    sum.add(&report.coverage);
                }
            }
            Err(failure) => {
                println!("{failure}");
                if let Ok(mut failures) = failures.lock() {
                    failures.push(*failure);
                }
            }
        }
    }
}
