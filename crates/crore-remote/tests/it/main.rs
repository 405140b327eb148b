//! The stores of this crate, on real servers.

mod engine;
mod postgres;
mod redis;
mod redis_conformance;
mod redis_outbox;
mod redis_race;
