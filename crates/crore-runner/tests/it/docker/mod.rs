//! Containers, by a real engine.

mod engine;
mod life;
mod pull;
mod refused;
mod stop;
