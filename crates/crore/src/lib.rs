//! crore: a durable job queue to embed, and the engine of the crore server.
//!
//! Programs push jobs; the engine keeps them safe, hands each to one worker at a time, retries,
//! schedules and limits them, and sees each through to an end. Everything that is answered is on the
//! disk.
//!
//! The engine needs no async runtime: its futures run on any, and each call has a blocking twin or can
//! be [blocked on](block_on).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod act;
mod block;
mod change;
mod dispatch;
mod doubt;
mod engine;
mod error;
pub mod events;
pub mod explain;
pub mod fetch;
pub mod finish;
mod hold;
mod leases;
mod limits;
pub mod pop;
pub mod push;
mod pusher;
mod queues;
mod registry;
mod results;
mod running;
mod schedules;
mod timers;
mod upkeep;
mod views;
mod worker;

pub use block::block_on;
pub use engine::{Engine, Options};
pub use error::Error;
pub use pop::Work;
pub use pusher::Push;
pub use results::Ended;
pub use worker::{Stop, Worker};

pub use crore_core as core;
pub use crore_store as store;
