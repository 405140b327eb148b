//! Output of a program, a container or a plugin: log lines, the result, the end of standard error.

mod caps;
mod failure;
mod lines;
mod settings;
mod tail;

pub(crate) use caps::{grace, max_output};
pub(crate) use failure::{OutputLimitExceeded, exit_code, with_last_line, with_stderr};
pub(crate) use lines::LogLines;
pub(crate) use settings::{Stderr, Success};
pub(crate) use tail::OutputTail;
