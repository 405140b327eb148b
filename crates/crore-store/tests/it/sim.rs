//! The simulator on the stores of this crate.

use std::ops::Range;
use std::time::Duration;

use crore_conformance::simulation::{
    Coverage, RareSituation, SimConfig, SimulatedEmbedded, SimulatedMemory, SimulatedStore,
    run_fresh_seeds, run_twice, run_twice_as,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs each seed twice, to check that only the seed matters; panics at the first failure.
fn run_seeds<S: SimulatedStore>(seeds: Range<u64>, make: impl Fn() -> S) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        match run_twice(seed, &make) {
            Ok(report) => coverage.add(&report.coverage),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{coverage}");
    coverage
}

/// Checks the embedded store, and that the run covered the moments in which stores go wrong.
fn check_embedded_store(seeds: Range<u64>) {
    let coverage = run_seeds(seeds, || SimulatedEmbedded);
    assert_eq!(coverage.missing(&RareSituation::ALL), [], "crash points that were never reached");
    // All two thousand seeds together cover more than 80 %.
    let (hit, all) = coverage.cells();
    assert!(hit * 100 >= all * 40, "only {hit} of {all} cells were hit");
}

/// Two thousand seeds, in parts that run in parallel.
macro_rules! the_embedded_store_keeps_every_promise {
    ($($part:ident: $seeds:expr,)+) => {
        mod the_embedded_store_keeps_every_promise {$(
            #[test]
            fn $part() {
                super::check_embedded_store($seeds);
            }
        )+}
    };
}

the_embedded_store_keeps_every_promise! {
    part_1: 0..250,
    part_2: 250..500,
    part_3: 500..750,
    part_4: 750..1000,
    part_5: 1000..1250,
    part_6: 1250..1500,
    part_7: 1500..1750,
    part_8: 1750..2000,
}

/// Seeds that failed once are run forever.
#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    for config in SimConfig::parse_seeds(include_str!("seeds.txt")) {
        if let Err(failure) = run_twice_as(&config, || SimulatedEmbedded) {
            panic!("{failure}");
        }
    }
}

/// A minute of fresh seeds.
#[test]
fn fresh_seeds_keep_every_promise() {
    run_fresh_seeds(MINUTE, || SimulatedEmbedded);
}

#[test]
fn the_memory_store_keeps_every_promise_without_crashes() {
    run_seeds(0..200, || SimulatedMemory);
}
