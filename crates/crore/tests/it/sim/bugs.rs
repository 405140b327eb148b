//! The bug drill: the engine's simulator finds every planted bug of the engine within 1,000 random seeds; without a
//! bug the seeds pass.
//!
//! `cargo test -p crore --features bug-drill --test it sim::bugs -- --nocapture`

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::panic::{set_hook, take_hook};

use crore::store::bug::arm;
use crore_conformance::simulation::{SimFailure, first_failing_seed};

use super::subject::{InjectedBug, OnEngine};

/// The features of the planted bugs; `Cargo.toml` describes them.
const BUGS: [&str; 11] = [
    "bug-21", "bug-22", "bug-23", "bug-24", "bug-25", "bug-26", "bug-27", "bug-28", "bug-29",
    "bug-30", "bug-35",
];

/// Each bug has to be found within this many seeds.
const SEEDS: u64 = 1000;

/// This many seeds must pass without a bug.
const CLEAN: u64 = 50;

/// Environment variable with the first seed, to repeat a drill.
const FROM: &str = "CRORE_DRILL_FROM";

/// The first seed, from the environment or random.
#[expect(clippy::disallowed_methods, reason = "a developer names the drill to repeat")]
fn first_seed() -> u64 {
    match std::env::var(FROM) {
        Ok(text) => text.parse().expect("the first seed of the drill is a number"),
        // Short enough to type, and far from the end of the range.
        Err(_) => RandomState::new().hash_one(FROM) >> 24,
    }
}

fn search(seeds: Range<u64>) -> Option<(u64, SimFailure)> {
    first_failing_seed(seeds, || OnEngine::new(InjectedBug::None))
}

/// The first of these seeds that fails with this bug and passes without it. Panics of the runs are not printed.
fn found(bug: &'static str, mut seeds: Range<u64>) -> Option<(u64, SimFailure)> {
    set_hook(Box::new(|_| {}));
    let found = loop {
        arm(bug);
        let found = search(seeds.clone());
        arm("");
        let Some((seed, failure)) = found else { break None };
        if search(seed..seed + 1).is_none() {
            break Some((seed, failure));
        }
        println!("seed {seed} fails without a mistake, and does not count");
        seeds.start = seed + 1;
    };
    drop(take_hook());
    found
}

fn is_found(bug: &'static str, first: u64) -> bool {
    let Some((seed, failure)) = found(bug, first..first + SEEDS) else {
        println!("{bug}: not found within {SEEDS} seeds");
        return false;
    };
    let violation = failure.violations.first().map_or("", String::as_str);
    let line = violation.lines().next().unwrap_or_default();
    println!("{bug}: seed {seed}, number {}: {line:.200}", seed - first + 1);
    true
}

#[test]
fn every_planted_bug_is_found_with_fresh_seeds() {
    let first = first_seed();
    println!("seeds from {first}");
    if let Some((_, failure)) = search(first..first + CLEAN) {
        panic!("a seed fails without a planted bug\n{failure}");
    }
    let missed: Vec<&str> = BUGS.into_iter().filter(|bug| !is_found(bug, first)).collect();
    let again =
        format!("{FROM}={first} cargo test -p crore --features bug-drill --test it sim::bugs");
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}; to repeat: {again}");
}
