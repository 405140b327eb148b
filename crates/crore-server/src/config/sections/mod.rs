//! The sections that the server has for itself, and those of which it has some keys, one file each. All others are
//! the options of the crates that they configure.

pub(crate) mod doors;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod runners;
pub(crate) mod store;
pub(crate) mod telemetry;
