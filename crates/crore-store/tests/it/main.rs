//! The stores that need no server, against the conformance suite.

#[cfg(feature = "conformance")]
mod model;
