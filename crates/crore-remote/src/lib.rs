//! Stores in external servers: PostgreSQL and Redis.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod redis;
pub mod sql;
mod unsupported;
