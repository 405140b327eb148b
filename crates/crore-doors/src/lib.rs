//! The doors of crore: listeners that speak one protocol each, over one engine.
//!
//! A door translates and decides nothing. [`http`] is the native API under `/v1`; [`listen`] is the accept
//! loop that all of them share, with its time-outs and caps; [`status`] says what each of our codes is in
//! HTTP.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod doors;
pub mod http;
pub mod listen;
pub mod metrics;
mod scope;
mod sight;
pub mod status;
pub mod telemetry;

pub use doors::{Doors, Options};
pub use scope::Scope;
