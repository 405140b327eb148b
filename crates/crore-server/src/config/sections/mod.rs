//! Sections with keys of the server itself, one file each. The other sections are the options of the crates that they
//! configure.

pub(crate) mod doors;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod runners;
pub(crate) mod store;
pub(crate) mod telemetry;
