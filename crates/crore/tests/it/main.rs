//! The engine over its stores, with the clock in hand.
#![expect(clippy::expect_used, reason = "a test panics, and says why")]

mod batch;
mod care;
mod clock_set;
mod clockwork;
mod dispatch;
mod doorsteps;
mod events;
mod explain;
mod handlers;
mod idempotency;
mod large;
mod later;
mod life;
mod many;
mod meanwhile;
mod named_handlers;
mod power;
mod reports;
mod resources;
mod restart;
mod scene;
mod seen_handlers;
mod sick;
mod sick_store;
mod sim;
mod stop;
mod tokens;
mod unheard;
mod watch;
