//! The simulator: the rules, a store and its callers on a simulated clock and disk, from one seed.
//!
//! One thread makes one step after another, and each step is drawn from the seed: a caller begins
//! something, the store's committer or keeper makes a turn, time passes, or something goes wrong.
//! Everything that callers do and are told goes into a history, which is held to the promises at
//! the end ([`crore_testkit::history`]). The same seed always makes the same run, to the last byte.
//!
//! ```text
//! config   what a run is like: which features; odds: which faults, how often
//! world    the event loop, and operations under way
//! pusher worker admin upkeep    what callers do, as the engine would do it
//! front    an engine that stands before the store, and is spoken to in its place
//! asleep   whether somebody waits there for what has come
//! faults   what goes wrong
//! drain    the end: healed, emptied, opened anew, written down
//! shrink   a failing run made smaller; failure: shown to a person
//! sweep    many seeds on all cores
//! ```

mod admin;
mod asleep;
mod config;
mod coverage;
mod dice;
mod drain;
mod failure;
mod faults;
mod front;
mod life;
mod log;
mod odds;
mod pusher;
mod run;
mod scene;
mod settle;
mod shrink;
mod subject;
mod sweep;
mod trace;
mod upkeep;
mod watch;
mod whole;
mod worker;
mod world;

pub use admin::meaning;
pub use config::{Callers, Config, Durability, Generation, Hands, Jobs, Setup};
pub use coverage::{Coverage, Deed, Fault, Sometimes};
pub use dice::Dice;
pub use failure::Failure;
pub use front::{Fate, Front, Ran};
pub use log::OnLog;
pub use odds::Faults;
pub use run::{Report, first_failing_seed, run, run_as, run_twice, run_twice_as};
pub use shrink::shrink;
pub use subject::{InMemory, Loops, Running, Subject};
pub use sweep::{Sweep, Swept, fresh_seed, run_fresh_seeds};
pub use trace::Trace;
