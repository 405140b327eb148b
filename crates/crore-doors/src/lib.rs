//! The doors of crore: listeners that speak one protocol each, over one engine.
//!
//! A door translates and decides nothing; what all doors share is the crate `crore-api`. `http` is the native API under `/v1`, and [`grpc`] the same for
//! programs and workers that stay connected; [`lightjq`], [`jobber`], [`jobworkerp`] and `lakh` speak the words of others;
//! [`listen`] is the accept loop that all of them share, with its timeouts and caps; a guard refuses requests of
//! foreign sites, and [`tls`] encrypts. Outbound calls are a crate of their own: `crore-outbound`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test panics, and says why")
)]

mod doors;
pub mod grpc;
mod guard;
mod http;
pub mod jobber;
pub mod jobworkerp;
mod lakh;
pub mod lightjq;
pub mod listen;
mod local;
mod openapi;
pub mod tls;
mod worker_session;

pub use doors::{Doors, Options};
pub use guard::{Host, Origin};
