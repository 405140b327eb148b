//! The engine over its stores, with the clock in hand.
#![expect(clippy::expect_used, reason = "a test panics, and says why")]

mod care;
mod life;
mod sim;
