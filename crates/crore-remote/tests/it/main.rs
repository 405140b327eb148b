//! Stores that live in another server, against the real ones.

mod redis;
mod redis_conformance;
mod redis_outbox;
mod redis_race;
