//! The doors of crore: listeners that speak one protocol each, over one engine.
//!
//! A door translates and decides nothing. [`http`] is the native API under `/v1`; [`lightjq`] and [`jobber`]
//! speak the words of others; [`listen`] is the accept loop that all of them share, with its time-outs and
//! caps; [`status`] says what each of our codes is in HTTP. [`outbound`] is the other direction: whom crore
//! may call.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test panics, and says why")
)]

mod doors;
pub mod http;
pub mod jobber;
pub mod lightjq;
pub mod listen;
pub mod outbound;
mod scope;
pub mod status;

pub use doors::{Doors, Options};
pub use scope::Scope;
