//! What an operator says about containers.

use std::path::PathBuf;

use crore_core::Span;
use crore_wire::words::Size;
use serde::Deserialize;

use crate::pattern::Patterns;

/// What an operator says about containers. The default allows every image, and no network.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the engine listens: `unix:///var/run/docker.sock`, or `tcp://host:port`.
    pub address: String,
    /// The images that may be run, as handlers write them.
    pub images: Patterns,
    /// Whether a container may have a network. That of the machine itself it never has.
    pub networks: bool,
    /// The most that a handler may set its limits to, and what holds where it sets none.
    pub limits: Limits,
    /// The most that a handler may set `max_output` to, in bytes.
    pub max_output: u64,
    /// The longest `grace` of a handler.
    pub max_grace: Span,
    /// A directory in which hosts note that they live, each by the lock of a file, and that several may
    /// share. What a host leaves that is killed is removed by the next one with the same directory;
    /// without one, it stays.
    pub hosts: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: "unix:///var/run/docker.sock".to_owned(),
            images: Patterns::default(),
            networks: false,
            limits: Limits::default(),
            max_output: 64 << 20,
            max_grace: Span::from_secs(60),
            hosts: None,
        }
    }
}

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
