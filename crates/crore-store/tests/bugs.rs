//! The drill: every planted mistake is caught, by the conformance suite or by the simulator, and
//! without one both pass.
//!
//! `cargo test -p crore-store --features bug-drill --test bugs`

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Arc;

use crore_store::Memory;
use crore_store::bug::arm;
use crore_store::conformance::{Subject, check_jobs, check_whole, jobs_cases, whole_cases};
use crore_store::simulation::{OnLog, first_failing_seed};
use crore_testkit::FakeClock;

async fn make() -> Subject<Memory> {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    Subject { store, clock }
}

/// The cases that fail with this mistake armed.
fn caught_by(bug: &'static str) -> Vec<&'static str> {
    let fails = |check: &dyn Fn()| {
        arm(bug);
        let failed = catch_unwind(AssertUnwindSafe(check)).is_err();
        arm("");
        failed
    };
    let jobs = jobs_cases::<Memory>().into_iter().map(|case| case.name);
    let whole = whole_cases::<Memory>().into_iter().map(|case| case.name);
    let jobs = jobs.filter(|name| fails(&|| check_jobs(make, name)));
    let whole = whole.filter(|name| fails(&|| check_whole(make, name)));
    jobs.chain(whole).collect()
}

#[test]
fn every_planted_mistake_is_caught() {
    set_hook(Box::new(|_| {}));
    assert_eq!(caught_by(""), Vec::<&str>::new(), "without a mistake every case passes");
    let bugs =
        ["bug-1", "bug-2", "bug-3", "bug-4", "bug-5", "bug-6", "bug-7", "bug-8", "bug-9", "bug-10"];
    let missed: Vec<&str> = bugs
        .into_iter()
        .filter(|bug| {
            let cases = caught_by(bug);
            println!("{bug}: caught by {} cases, {:?}", cases.len(), cases.first());
            cases.is_empty()
        })
        .collect();
    assert_eq!(missed, Vec::<&str>::new(), "mistakes that no case noticed");
}

/// Within so many seeds each mistake of the log has to be found.
const SEEDS: u64 = 1000;

#[test]
fn every_planted_mistake_of_the_log_is_found_by_the_simulator() {
    set_hook(Box::new(|_| {}));
    let bugs = [
        "bug-11", "bug-12", "bug-13", "bug-14", "bug-15", "bug-16", "bug-17", "bug-18", "bug-19",
        "bug-20",
    ];
    let missed: Vec<&str> = bugs
        .into_iter()
        .filter(|bug| {
            arm(bug);
            let found = first_failing_seed(0..SEEDS, || OnLog);
            arm("");
            let shown = found.as_ref().map(|(seed, failure)| (seed, failure.violations.first()));
            println!("{bug}: found by {shown:.400?}");
            found.is_none()
        })
        .collect();
    assert_eq!(missed, Vec::<&str>::new(), "mistakes that no seed noticed");
}
