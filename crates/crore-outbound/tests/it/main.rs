//! Calls to others, on real ports of loopback.
#![expect(clippy::expect_used, reason = "a test panics, and says why")]

mod calls;
mod kept;
#[expect(dead_code, reason = "the tests of other crates use the rest")]
mod peer;
mod secure;
