//! The state machine of a job.
//!
//! [`decide`] is pure and total: for every job and event it returns a [`Change`] or a [`Refusal`]. A
//! change contains the new record of the job **and** the effects on other records; a store writes all of
//! it atomically, guarded by [`Change::seen`], or nothing. The transitions that only a store can make
//! atomically (claim, promote, release) are in [`transitions`], so that every store makes the same ones.

mod decide;
pub mod event;
pub mod transitions;

pub use decide::decide;
pub use event::{
    Change, Effect, EventWaitChange, JobEdit, JobEvent, NewManualAction, NextLive, NextRecord,
    NextState, Outcome, RetryDirective,
};
pub use event::{Refusal, Report, ResultChange, Settled};

#[cfg(test)]
mod tests;
