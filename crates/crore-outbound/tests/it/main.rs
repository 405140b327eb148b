//! Calls to others, on real ports of loopback.
#![expect(clippy::expect_used, reason = "a test panics, and says why")]

mod calls;
mod kept;
mod secure;
