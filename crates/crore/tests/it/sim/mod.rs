//! The engine in the simulator: the callers of the store tests use an engine instead, on a simulated clock and
//! disk, through crashes, and the checker judges the history.

#[cfg(feature = "bug-drill")]
mod bugs;
mod subject;

use std::ops::Range;
use std::time::Duration;

use crore_conformance::simulation::{
    Coverage, Generation, RareSituation, SeedSweep, SimConfig, first_failing_seed, run_fresh_seeds,
    run_twice, run_twice_as,
};

use subject::{InjectedBug, OnEngine};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs each seed twice, to check that a run depends on nothing but its seed. Panics at the first failure.
fn run_seeds(seeds: impl IntoIterator<Item = u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        match run_twice(seed, || OnEngine::new(InjectedBug::None)) {
            Ok(report) => coverage.add(&report.coverage),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{coverage}");
    coverage
}

/// Moments that callers of an engine cannot observe: it decides again internally, and does not tell in which state
/// a job was when a report arrived.
const UNSEEN: [RareSituation; 3] = [
    RareSituation::DecidedAgain,
    RareSituation::LapsedBeforeItsReport,
    RareSituation::ReportedAfterCancel,
];

/// The seeds pass, and all critical moments occurred.
fn check_seeds(seeds: Range<u64>) {
    let coverage = run_seeds(seeds);
    let never = coverage.missing(&RareSituation::ALL);
    let never: Vec<_> = never.into_iter().filter(|what| !UNSEEN.contains(what)).collect();
    assert_eq!(never, [], "situations that never occurred");
}

/// Six thousand seeds, in parts that run in parallel.
macro_rules! the_engine_keeps_every_promise {
    ($($part:ident: $seeds:expr,)+) => {
        mod the_engine_keeps_every_promise {$(
            #[test]
            fn $part() {
                super::check_seeds($seeds);
            }
        )+}
    };
}

the_engine_keeps_every_promise! {
    part_1: 0..1000,
    part_2: 1000..2000,
    part_3: 2000..3000,
    part_4: 3000..4000,
    part_5: 4000..5000,
    part_6: 5000..6000,
}

/// `cargo xtask sim --engine`: the seeds from the environment, as `first..end`, on all cores.
#[test]
#[expect(clippy::disallowed_methods, reason = "a tool says in the environment what it wants")]
#[ignore = "runs the seeds in `CRORE_SIM_SEEDS`, for `cargo xtask sim --engine`"]
fn the_requested_seeds_keep_every_promise() {
    let asked = std::env::var("CRORE_SIM_SEEDS").expect("`CRORE_SIM_SEEDS` is `first..end`");
    let (first, end) = asked.split_once("..").expect("`first..end`");
    let seed = |text: &str| text.parse::<u64>().expect("a seed");
    let seeds = seed(first)..seed(end);
    let n = seeds.end - seeds.start;
    let mut sweep = SeedSweep::over(seeds);
    if let Ok(generation) = std::env::var("CRORE_SIM_GENERATION") {
        sweep.generation = Generation::of(seed(&generation)).expect("a generation");
    }
    sweep.twice_every = if n == 1 { 1 } else { sweep.twice_every };
    let swept = sweep.run(|| OnEngine::new(InjectedBug::None), || false);
    println!("{}", swept.coverage);
    if std::env::var_os("CRORE_SIM_TABLE").is_some() {
        println!("{}", swept.coverage.table());
    }
    if let Some(file) = std::env::var_os("CRORE_SIM_JSON") {
        std::fs::write(file, swept.to_json().to_string()).expect("the file can be written");
    }
    swept.assert_clean();
    assert_eq!(swept.coverage.runs, n, "every seed was run");
}

/// Every seed that ever failed is run forever.
#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    for config in SimConfig::parse_seeds(include_str!("seeds.txt")) {
        if let Err(failure) = run_twice_as(&config, || OnEngine::new(InjectedBug::None)) {
            panic!("{failure}");
        }
    }
}

/// A minute of random seeds.
#[test]
fn fresh_seeds_keep_every_promise() {
    run_fresh_seeds(MINUTE, || OnEngine::new(InjectedBug::None));
}

#[test]
fn every_planted_bug_is_found() {
    for (bug, seeds) in [
        (InjectedBug::NotDurable, 150),
        (InjectedBug::UnfencedReports, 150),
        // Needs two reports of a job between two deliveries, where any delivery may report.
        (InjectedBug::ForgottenReports, 3000),
        (InjectedBug::IgnoredRenewals, 150),
        (InjectedBug::NoWakeUps, 150),
        (InjectedBug::LostEvents, 150),
        (InjectedBug::EarlyEvents, 150),
    ] {
        let found = first_failing_seed(0..seeds, || OnEngine::new(bug));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{bug:?} is never detected"));
        println!("{bug:?}: seed {seed}: {:?}", failure.violations.first());
    }
}
