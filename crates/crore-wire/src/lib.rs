//! What doors and clients say to each other: bytes to types and back. Knows no engine.
//!
//! Bodies are JSON or MessagePack and mean the same in both. They are read strictly: a field that is not
//! known, a key that stands twice, bytes after the end, nesting beyond 64 levels and MessagePack's
//! extension types are refused, and the answer names the field.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test panics, and says where"))]

pub mod api;
pub mod encoding;
pub mod grpc;
mod msgpack;
mod object;
mod raw;
mod secret;
mod strict;
mod transcode;
pub mod words;
pub mod worker;

pub use encoding::Format;
pub use raw::Raw;
pub use secret::Secret;
