//! The doors of crore: listeners that speak one protocol each, over one engine.
//!
//! A door translates and decides nothing. [`http`] is the native API under `/v1`, and [`grpc`] the same for
//! programs and workers that stay connected; [`lightjq`], [`jobber`], [`jobworkerp`] and `lakh` speak the words of others;
//! [`listen`] is the accept loop that all of them share, with its time-outs and caps; [`status`] says what each of our
//! codes is in HTTP. [`access`] knows callers by their tokens, a guard keeps pages of other sites out,
//! [`tls`] keeps others from listening, and [`audit`] is told of every change. The other
//! direction, whom crore may call, is a crate of its own: `crore-outbound`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test panics, and says why")
)]

pub mod access;
mod around;
pub mod audit;
mod bug;
mod doors;
pub mod grpc;
mod guard;
pub mod http;
pub mod jobber;
pub mod jobworkerp;
mod journal;
mod lakh;
pub mod lightjq;
pub mod listen;
mod local;
pub mod metrics;
mod scope;
mod sight;
pub mod status;
pub mod telemetry;
pub mod tls;
mod worker_session;

pub use crore_wire::Secret;
pub use doors::{Doors, Options};
pub use guard::{Host, Origin};
pub use scope::{Scope, Scopes};
