//! What comes out of a program, a container or a plugin: lines of a log, a result, last words.

mod caps;
mod lines;
mod settings;
mod tail;
mod told;

pub(crate) use caps::{grace, max_output};
pub(crate) use lines::Lines;
pub(crate) use settings::{Stderr, Success};
pub(crate) use tail::Tail;
pub(crate) use told::{TooMuch, exit_code, with_last_line, with_stderr};
