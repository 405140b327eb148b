//! The sections, one file each.

pub(crate) mod caps;
pub(crate) mod doors;
pub(crate) mod http;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod retention;
pub(crate) mod store;
pub(crate) mod telemetry;
