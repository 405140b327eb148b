//! Request and response types of the native API, one file per resource. Requests refuse unknown fields; ids are
//! strings, times RFC 3339, and durations text such as `30s`.

pub mod act;
pub mod audit;
pub mod backups;
pub mod complete;
pub mod diff;
pub mod enums;
pub mod errors;
pub mod events;
pub mod fetch;
pub mod finish;
pub mod groups;
pub mod handlers;
pub mod info;
pub mod job;
pub mod limits;
pub mod marks;
pub mod notes;
pub mod operations;
pub mod payload;
pub mod problem;
pub mod push;
mod pushed;
pub mod queues;
pub mod replay;
pub mod retry;
mod scalar;
pub mod schedules;
pub mod stats;
pub mod storage;
pub mod tokens;
pub mod workers;

pub use problem::Problem;
pub use scalar::{DeliveryId, Id, JobPathId, Labels, Name};
