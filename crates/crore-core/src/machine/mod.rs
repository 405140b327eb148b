//! The state machine of a job: the one place where it is decided what becomes of it.
//!
//! [`decide`] is pure and total: for every job and every event it gives either a [`Change`] or the
//! reason why there is none. A change says what the job's record becomes **and** its effects on
//! other records; a store writes all of that at once, guarded by what the decision was based on, or
//! nothing. The few moves that only a store can make atomically (claim, promote, release) are in
//! [`moves`], so that every store makes the same ones.

mod decide;
pub mod event;
pub mod moves;

pub use decide::decide;
pub use event::{Again, Change, Edit, Effect, Event, Next, NextLive, NextState, Outcome};
pub use event::{Refusal, Report, ResultChange, Settled};

#[cfg(test)]
mod tests;
