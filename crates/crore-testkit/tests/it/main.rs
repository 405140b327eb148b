//! The testkit against real servers: they work, and nothing of them stays behind.

mod gone;
mod holder;
mod servers;
mod tool;
