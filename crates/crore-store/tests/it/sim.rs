//! The simulator over the stores of this crate.

use crore_store::simulation::{Coverage, InMemory, run_twice};

#[test]
fn the_memory_store_keeps_every_promise_without_crashes() {
    let mut coverage = Coverage::default();
    for seed in 0..200 {
        match run_twice(seed, || InMemory) {
            Ok(report) => coverage.add(&report.coverage),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{coverage}");
}
