//! Wire formats shared by doors and clients: bytes to types and back.
//!
//! Bodies are JSON or MessagePack, with the same meaning in both. Parsing is strict: unknown fields, duplicate
//! keys, trailing bytes, nesting beyond 64 levels and MessagePack extension types are refused, and the error
//! names the field.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod api;
pub mod encoding;
pub mod grpc;
mod msgpack;
mod object;
mod raw;
mod secret;
mod strict;
mod transcode;
pub mod units;
pub mod worker;

pub use encoding::Format;
pub use raw::Raw;
pub use secret::TokenSecret;
