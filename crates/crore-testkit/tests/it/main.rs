//! The testkit against real servers: they work, and leave nothing behind.

mod cleanup;
mod disks;
mod holder;
mod servers;
mod tool;
