//! Runs many seeds on all cores.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::config::{Generation, SimConfig};
use super::coverage::Coverage;
use super::failure::SimFailure;
use super::run::{run_as, run_twice_as};
use super::shrink::shrink;
use super::subject::SimulatedStore;

/// Which seeds are run, and how.
#[derive(Debug, Clone)]
pub struct SeedSweep {
    /// The seeds.
    pub seeds: Range<u64>,
    /// How their random numbers are drawn.
    pub generation: Generation,
    /// Every n-th seed is run twice, to check that the run depends on the seed alone.
    pub twice_every: u64,
    /// Maximum number of failing seeds before the sweep stops.
    pub max_failures: usize,
    /// Number of threads; by default all cores.
    pub threads: Option<usize>,
}

/// A new random seed, with room for many after it.
pub fn fresh_seed() -> u64 {
    // The standard library seeds its hash maps from the system's randomness.
    RandomState::new().hash_one("seed") >> 24
}

/// The result of many seeds.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// The coverage of the seeds that passed.
    pub coverage: Coverage,
    /// Failures, shrunk.
    pub failures: Vec<SimFailure>,
}

impl SeedSweep {
    /// A sweep over these seeds, in the newest generation.
    pub const fn over(seeds: Range<u64>) -> Self {
        Self {
            seeds,
            generation: Generation::Fourth,
            twice_every: 10,
            max_failures: 40,
            threads: None,
        }
    }

    /// Runs the seeds on all cores until all are run, too many have failed, or `is_enough` returns true. Each
    /// failure is shrunk and printed as it is found.
    pub fn run<S: SimulatedStore>(
        &self,
        make: impl Fn() -> S + Sync,
        is_enough: impl Fn() -> bool + Sync,
    ) -> SweepReport {
        let (next, swept) = (AtomicU64::new(self.seeds.start), Mutex::<SweepReport>::default());
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(cores);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !is_enough()
                        && self.run_seed(next.fetch_add(1, Ordering::Relaxed), &make, &swept)
                    {
                    }
                });
            }
        });
        swept.into_inner().unwrap_or_default()
    }

    /// Runs one seed; returns whether there is more to do.
    fn run_seed<S: SimulatedStore>(
        &self,
        seed: u64,
        make: &impl Fn() -> S,
        swept: &Mutex<SweepReport>,
    ) -> bool {
        let is_over = |swept: &SweepReport| swept.failures.len() >= self.max_failures;
        if seed >= self.seeds.end || swept.lock().map_or(true, |swept| is_over(&swept)) {
            return false;
        }
        let config = SimConfig::draw_as(seed, self.generation);
        let report = match seed.is_multiple_of(self.twice_every) {
            true => run_twice_as(&config, make),
            false => run_as(config, &mut make()),
        };
        let report = report.map_err(|failure| shrink(*failure, make));
        if let Err(failure) = &report {
            println!("{failure}");
        }
        let Ok(mut swept) = swept.lock() else { return false };
        match report {
            Ok(report) => swept.coverage.add(&report.coverage),
            Err(failure) => swept.failures.push(failure),
        }
        true
    }
}

/// Runs new random seeds on one thread for about this long. A failure prints the command that repeats it.
///
/// # Panics
/// If a seed failed.
#[expect(clippy::disallowed_methods, reason = "how long seeds are run is real time")]
pub fn run_fresh_seeds<S: SimulatedStore>(time: Duration, make: impl Fn() -> S + Sync) {
    let (from, start) = (fresh_seed(), Instant::now());
    println!("fresh seeds from {from}");
    let sweep = SeedSweep { threads: Some(1), ..SeedSweep::over(from..u64::MAX) };
    let swept = sweep.run(make, || start.elapsed() >= time);
    println!("{}", swept.coverage);
    swept.assert_clean();
}

impl SweepReport {
    /// Panics with the command for each seed that failed.
    ///
    /// # Panics
    /// If a seed failed.
    #[track_caller]
    pub fn assert_clean(&self) {
        let failing: Vec<_> = self.failures.iter().map(|failure| &failure.repeat_command).collect();
        assert!(failing.is_empty(), "{} seeds fail; to repeat: {failing:#?}", failing.len());
    }

    /// The result as JSON: counts, failing seeds, cells and moments.
    pub fn to_json(&self) -> serde_json::Value {
        let failures = self.failures.iter().map(|failure| {
            let (seed, class, again) =
                (failure.config.seed, failure.class(), &failure.repeat_command);
            serde_json::json!({ "seed": seed, "violation": class, "again": again })
        });
        let named = |(what, n)| (format!("{what:?}"), n);
        let Coverage { runs, steps, events, faults, millis, .. } = self.coverage;
        let (reached, all) = self.coverage.cells();
        serde_json::json!({
            "runs": runs, "steps": steps, "events": events, "faults": faults, "simulated_ms": millis,
            "cells_reached": reached, "cells_possible": all,
            "failures": failures.collect::<Vec<_>>(),
            "moments": self.coverage.situations().map(named).collect::<std::collections::BTreeMap<_, u64>>(),
            "cells": self.coverage.named_cells().collect::<std::collections::BTreeMap<_, _>>(),
        })
    }
}
