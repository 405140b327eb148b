//! The simulator over the stores of this crate, over one that is right, and over ones that lie.

mod journal;
mod verbs;

use crore_store::simulation::{Coverage, InMemory, OnLog, Subject, first_failing_seed, run_twice};

use journal::{Journal, Lie};

/// Runs seeds twice each; the first that fails ends it.
fn all_well<S: Subject>(seeds: std::ops::Range<u64>, make: impl Fn() -> S) -> Coverage {
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

#[test]
fn the_memory_store_keeps_every_promise_without_crashes() {
    all_well(0..200, || InMemory);
}

#[test]
fn a_store_that_is_as_durable_as_its_disk_keeps_every_promise() {
    all_well(0..300, || Journal::new(Lie::Nothing));
}

#[test]
fn the_embedded_store_keeps_every_promise() {
    all_well(0..300, || OnLog);
}

#[test]
fn every_lie_is_found() {
    for lie in [
        Lie::AnswersEarly,
        Lie::NeverSyncs,
        Lie::RepeatsDeliveries,
        Lie::ForgivesErrors,
        Lie::DropsTheLast,
        Lie::TearsBatches,
    ] {
        let found = first_failing_seed(0..300, || Journal::new(lie));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{lie:?} is never found"));
        println!("{lie:?}: seed {seed}: {:?}", failure.violations.first());
    }
}
