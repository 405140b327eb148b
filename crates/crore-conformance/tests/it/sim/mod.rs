//! The simulator over a correct store, and over stores that each violate one promise.

mod journal;
mod verbs;

use crore_conformance::simulation::{first_failing_seed, run_twice, shrink};

use journal::{JournalBug, JournalStore};

/// A failing run is shrunk to the few steps that matter.
#[test]
fn a_failure_is_shrunk_to_the_needed_steps() {
    let make = || JournalStore::new(JournalBug::NeverSyncs);
    let (_, failure) = first_failing_seed(0..300, make).expect("the bug is found");
    let (class, steps) = (failure.class(), failure.config.last_step);
    let shrunk = shrink(failure, make);
    assert_eq!(shrunk.class(), class, "the same promise is broken");
    let skipped = shrunk.config.skip.range(..=shrunk.config.last_step).count();
    let left = shrunk.config.last_step as usize - skipped;
    assert!(left <= 12 && left < steps as usize, "{left} of {steps} steps are left");
    assert!(shrunk.config.faults.odds().iter().filter(|(_, odds)| *odds > 0).count() <= 2);
    let text = shrunk.to_string();
    assert!(text.lines().count() < 90, "{text}");
}

#[test]
fn a_store_that_is_as_durable_as_its_disk_keeps_every_promise() {
    for seed in 0..200 {
        if let Err(failure) = run_twice(seed, || JournalStore::new(JournalBug::Nothing)) {
            panic!("{failure}");
        }
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in [
        JournalBug::AnswersEarly,
        JournalBug::NeverSyncs,
        JournalBug::RepeatsDeliveries,
        JournalBug::ForgivesErrors,
        JournalBug::DropsTheLast,
        JournalBug::TearsBatches,
    ] {
        let found = first_failing_seed(0..300, || JournalStore::new(bug));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{bug:?} is never detected"));
        println!("{bug:?}: seed {seed}: {:?}", failure.violations.first());
    }
}
