//! The structures of the native API, one file for each resource. Requests refuse fields that they do not
//! know; ids are texts; times are RFC 3339 and lengths of time are words.

pub mod act;
pub mod backups;
pub mod events;
pub mod fetch;
pub mod finish;
pub mod groups;
pub mod handlers;
pub mod info;
pub mod job;
pub mod limits;
pub mod notes;
pub mod payload;
pub mod problem;
pub mod push;
mod pushed;
pub mod queues;
pub mod retry;
mod scalar;
pub mod schedules;
pub mod stats;
pub mod tokens;
pub mod words;
pub mod workers;

pub use problem::Problem;
pub use scalar::{DeliveryId, Id, Labels, Name};
