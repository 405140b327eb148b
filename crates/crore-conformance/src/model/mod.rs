//! The model test: random operations on a store and on the memory store, whose answers must be
//! equal.
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
//! Both stores run at one time, in the test's hand. Every answer is compared, and every few
//! operations everything that can be seen. What differs between honest stores is mapped away before:
//! the numbers that a store allocates become places in the order of their first appearance, and what
//! the contract leaves open is not looked at (the order of jobs that need a decision, when to claim
//! again, where a page ends, what pruning counts besides jobs, a group's revision, and how long something is stored that
//! nobody may see any more). A failure is shrunk to a short list of operations.
//!
//! Each case first draws which families of operations it uses at all: a case with few families goes
//! deeper into each, and what many families hide from each other comes to light.

mod apply;
mod draw;
mod known;
mod normal;
mod op;
mod print;
mod run;
mod shrink;
mod side;
mod swarm;
mod trial;
mod upkeep;
mod view;
mod words;

use crore_store::{Jobs, Registry, Store};

use crate::suite::Subject;
use side::Parts;
use swarm::Reach;
use trial::{Size, Trial};

/// Compares the path of a job and the registry with the memory store's: `cases` times, up to `ops`
/// operations on a fresh store from `make`.
///
/// It has a runtime of its own, so it is called from a plain `#[test]`. The seed is in the message
/// of a failure, and `PROPTEST_RNG_SEED` replays it.
///
/// # Panics
///
/// If the stores differ, with the shortest list of operations that was found and the first answer
/// that is not the same.
pub fn check_jobs<S: Jobs + Registry>(cases: u32, ops: usize, make: impl AsyncFn() -> Subject<S>) {
    fn parts<S: Jobs + Registry>(store: &S) -> Parts<'_> {
        Parts { jobs: store, registry: store, rest: None }
    }
    Trial::new(make, parts, Reach::Jobs).check(Size { cases, ops });
}

/// Compares a whole store with the memory store, as [`check_jobs`] does; also its upkeep, its views
/// and its schedules.
///
/// # Panics
///
/// As [`check_jobs`].
pub fn check_store<S: Store>(cases: u32, ops: usize, make: impl AsyncFn() -> Subject<S>) {
    Trial::new(make, side::whole, Reach::Whole).check(Size { cases, ops });
}
