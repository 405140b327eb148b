//! How much of the machine a container may have.

use crore_core::Size;
use serde::Deserialize;

/// How much of the machine a container may have; as much as there is, where nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of memory, without any swap.
    pub memory: Option<Size>,
    /// Processors, in parts too.
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: Option<u32>,
}
