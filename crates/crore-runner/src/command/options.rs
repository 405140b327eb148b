//! What an operator allows commands.

use crore_core::Span;

use super::limits::Limits;
use crate::pattern::Patterns;

/// What an operator allows commands. The default allows any program, but no shell.
#[derive(Debug, Clone)]
pub struct Options {
    /// The programs that may be run, by their absolute path, or by a name that is looked up on the
    /// host's `PATH`.
    pub programs: Patterns,
    /// Whether a handler may bring a script for `/bin/sh`. A script may run anything, so that
    /// `programs` says nothing about it.
    pub shell: bool,
    /// The directories that a program may be started in.
    pub dirs: Patterns,
    /// The most that a handler may set `max_output` to, in bytes.
    pub max_output: u64,
    /// The longest `grace` of a handler.
    pub max_grace: Span,
    /// The most that a handler may set its limits to, and what holds where it sets none.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            programs: Patterns::default(),
            shell: false,
            dirs: Patterns::default(),
            max_output: 64 << 20,
            max_grace: Span::from_secs(60),
            limits: Limits::default(),
        }
    }
}
