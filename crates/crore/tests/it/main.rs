//! Tests of the engine on its stores, mostly with a simulated clock.
#![expect(clippy::expect_used, reason = "tests may panic")]

mod batch;
mod bulk;
mod clock_set;
mod concurrent_handlers;
mod deadlines;
mod delayed_jobs;
mod dispatch;
mod door_calls;
mod due_later;
mod embedding;
mod events;
mod explain;
mod fair;
mod faulty_store;
mod handlers;
mod idempotency;
mod large_payloads;
mod lost_answers;
mod observer;
mod power_loss;
mod races;
mod renamed_handlers;
mod reports;
mod resources;
mod restart;
mod search;
mod sim;
mod stop;
mod store_errors;
mod test_engine;
mod time_driven;
mod tokens;
mod versions;
