//! The simulator over the stores of this crate.

use std::ops::Range;
use std::time::Duration;

use crore_conformance::simulation::{
    Config, Coverage, InMemory, OnLog, Sometimes, Subject, run_fresh_seeds, run_twice, run_twice_as,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs seeds, each twice, to see that nothing but the seed has a say; the first that fails ends it.
fn all_well<S: Subject>(seeds: Range<u64>, make: impl Fn() -> S) -> Coverage {
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

/// The embedded store keeps every promise, and the moments in which stores go wrong were met.
fn the_log_is_well(seeds: Range<u64>) {
    let coverage = all_well(seeds, || OnLog);
    assert_eq!(coverage.never(&Sometimes::ALL), [], "moments that were never met");
    // All two thousand together hit more than eight of ten.
    let (hit, all) = coverage.cells();
    assert!(hit * 100 >= all * 40, "only {hit} of {all} cells were hit");
}

/// Two thousand seeds, in parts that run side by side.
macro_rules! the_embedded_store_keeps_every_promise {
    ($($part:ident: $seeds:expr,)+) => {
        mod the_embedded_store_keeps_every_promise {$(
            #[test]
            fn $part() {
                super::the_log_is_well($seeds);
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

/// A seed that failed once is run for ever.
#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    for config in Config::kept(include_str!("seeds.txt")) {
        if let Err(failure) = run_twice_as(&config, || OnLog) {
            panic!("{failure}");
        }
    }
}

/// A minute of seeds that nobody has seen.
#[test]
fn fresh_seeds_keep_every_promise() {
    run_fresh_seeds(MINUTE, || OnLog);
}

#[test]
fn the_memory_store_keeps_every_promise_without_crashes() {
    all_well(0..200, || InMemory);
}
