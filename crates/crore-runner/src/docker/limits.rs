//! Resource limits of a container.

use crore_core::Size;
use serde::Deserialize;

/// Resource limits of a container. An absent limit is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerLimits {
    /// Memory in bytes, without swap.
    pub memory: Option<Size>,
    /// CPUs, in fractions too.
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: Option<u32>,
}
