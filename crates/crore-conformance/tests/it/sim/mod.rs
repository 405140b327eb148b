//! The simulator over a store that keeps its promises, and over stores that break one each.

mod journal;
mod verbs;

use crore_conformance::simulation::{first_failing_seed, run_twice, shrink};

use journal::{Journal, Lie};

/// A failing run is shown as the few steps that matter.
#[test]
fn a_failure_is_shrunk_to_what_matters() {
    let make = || Journal::new(Lie::NeverSyncs);
    let (_, failure) = first_failing_seed(0..300, make).expect("the lie is found");
    let (sort, steps) = (failure.sort(), failure.config.last_step);
    let shrunk = shrink(failure, make);
    assert_eq!(shrunk.sort(), sort, "the same promise is broken");
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
        if let Err(failure) = run_twice(seed, || Journal::new(Lie::Nothing)) {
            panic!("{failure}");
        }
    }
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
