//! The testkit against real servers: they work, and nothing of them stays behind.

mod disks;
mod gone;
mod holder;
mod servers;
mod tool;
