//! The doors of crore: listeners that each speak one protocol, over one engine.
//!
//! A door only translates; behavior that all doors share is in the crate `crore-api`. `http` is the native API under
//! `/v1`; [`grpc`] is the same API for gRPC clients and connected workers. [`lightjq`], [`jobber`], [`jobworkerp`]
//! and `lakh` speak the protocols of other queues. [`listen`] is the shared accept loop with its timeouts and limits,
//! a guard refuses cross-site requests, and [`tls`] encrypts. Outbound calls are in the crate `crore-outbound`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")
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
pub use guard::{AllowedHost, AllowedOrigin};
