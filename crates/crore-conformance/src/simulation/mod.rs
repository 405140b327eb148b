//! The simulator: a store and its callers on a simulated clock and disk, driven from one seed.
//!
//! One thread performs one step after another, each drawn from the seed: a caller begins an operation, the
//! store's committer or keeper makes a turn, time passes, or a fault is injected. All calls and responses are
//! recorded in a history, which is checked against the invariants at the end ([`crore_testkit::history`]).
//! The same seed always produces the same run, byte for byte.
//!
//! ```text
//! config          features of a run
//! fault_odds      frequency of faults
//! event_loop      the steps of a run, and operations in flight
//! pusher worker admin upkeep    callers, acting as the engine would
//! engine          the engine that callers use instead of the store
//! waiters         callers that wait at an engine, and missed wake-ups
//! faults          fault injection
//! drain           the end of a run: heal, drain, reopen, dump
//! shrink failure  a failing run: made smaller, and printed
//! sweep           many seeds on all cores
//! ```

mod admin;
mod config;
mod contents;
mod context;
mod coverage;
mod drain;
mod embedded_store;
mod engine;
mod event_loop;
mod events;
mod failure;
mod fault_odds;
mod faults;
mod process;
mod pusher;
mod rng;
mod run;
mod settle;
mod shrink;
mod subject;
mod sweep;
mod trace;
mod upkeep;
mod waiters;
mod watched_disk;
mod worker;

pub use admin::recorded_content;
pub use config::{
    AdminFeatures, CallerCounts, Generation, JobFeatures, SimConfig, StoreDurability, StoreSetup,
};
pub use coverage::{CallerAction, Coverage, RareSituation, SimFault};
pub use embedded_store::SimulatedEmbedded;
pub use engine::{EventResult, LocalResult, SimulatedEngine};
pub use failure::SimFailure;
pub use fault_odds::FaultOdds;
pub use rng::SimRng;
pub use run::{SimReport, first_failing_seed, run, run_as, run_twice, run_twice_as};
pub use shrink::shrink;
pub use subject::{OpenStore, SimulatedMemory, SimulatedStore, StoreLoops};
pub use sweep::{SeedSweep, SweepReport, fresh_seed, run_fresh_seeds};
pub use trace::Trace;
