//! Conformance suite, model test and simulator for crore stores. For tests only.
//!
//! | module | use |
//! |---|---|
//! | [`suite`] | one test for each promise of the store traits: [`conformance!`] |
//! | [`model`] | random operations on a store and on the memory store; responses must be equal |
//! | [`simulation`] | a store with its callers, clock and disk, driven from one seed |
//! | [`sim_disk`] | a disk that loses, tears and refuses writes, for the simulator and for tests |
//! | [`fuzz`] | the body of the fuzz target that opens a store from arbitrary bytes |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod fuzz;
pub mod model;
pub mod sim_disk;
pub mod simulation;
pub mod suite;
