//! The model test: random operations on a store and on the memory store, whose responses must be equal.
//!
//! ```
//! # use std::sync::Arc;
//! # use crore_conformance::{model, suite::Subject};
//! # use crore_store::Memory;
//! # use crore_testkit::FakeClock;
//! # async fn make() -> Subject<Memory> {
//! #     let clock = Arc::new(FakeClock::default());
//! #     Subject { store: Arc::new(Memory::new(clock.clone())), clock }
//! # }
//! model::check_store(10, 20, make);
//! ```
//!
//! Both stores share one fake clock. Every response is compared, and every few operations the whole visible
//! state. Legitimate differences are normalized first: ids become positions in the order of their first
//! appearance, and everything that the contract leaves open is ignored (the order of jobs that need a
//! decision, when to claim again, where a page ends, what pruning counts besides jobs, a group's revision,
//! and how long an expired record stays stored). A failure is shrunk to a short list of operations.
//!
//! Each case first draws which families of operations it uses (swarm testing): a case with few families
//! explores each more deeply, and finds bugs that other families would mask.

mod apply;
mod compared_store;
mod draw;
mod event;
mod normalize;
mod observed;
mod op;
mod print;
mod run;
mod samples;
mod shrink;
mod swarm;
mod trial;
mod upkeep;
mod view;

use crore_store::{Jobs, Registry, Store};

use crate::suite::Subject;
use compared_store::StoreTraits;
use swarm::ModelReach;
use trial::{Trial, TrialSize};

/// Compares the path of a job and the registry with the memory store: `cases` times, up to `ops` operations
/// on a fresh store from `make`.
///
/// The check has its own runtime, so call it from a plain `#[test]`. The failure message contains the seed;
/// `PROPTEST_RNG_SEED` replays it.
///
/// # Panics
///
/// If the stores differ, with the shortest list of operations found and the first response that differs.
pub fn check_jobs<S: Jobs + Registry>(cases: u32, ops: usize, make: impl AsyncFn() -> Subject<S>) {
    fn parts<S: Jobs + Registry>(store: &S) -> StoreTraits<'_> {
        StoreTraits { jobs: store, registry: store, rest: None }
    }
    Trial::new(make, parts, ModelReach::Jobs).check(TrialSize { cases, ops });
}

/// Compares a whole store with the memory store, as [`check_jobs`] does, including its upkeep, views and
/// schedules.
///
/// # Panics
///
/// As [`check_jobs`].
pub fn check_store<S: Store>(cases: u32, ops: usize, make: impl AsyncFn() -> Subject<S>) {
    Trial::new(make, compared_store::whole, ModelReach::Whole).check(TrialSize { cases, ops });
}

/// The same for a store that is closed and opened again meanwhile. Turns of fair keys begin again then, so that jobs have
/// none.
pub fn check_reopened_store<S: Store>(cases: u32, ops: usize, make: impl AsyncFn() -> Subject<S>) {
    let trial = Trial::new(make, compared_store::whole, ModelReach::Reopened);
    trial.check(TrialSize { cases, ops });
}
