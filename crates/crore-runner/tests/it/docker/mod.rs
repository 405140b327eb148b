//! Containers, by a real engine.

mod containers;
mod engine;
mod pull;
mod refused;
mod stop;
