//! Outbound calls on real loopback ports.
#![expect(clippy::expect_used, reason = "a test may panic")]

mod calls;
mod pooled;
mod secure;
