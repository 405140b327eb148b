//! The child process, seen from outside, and the header that its plugins are built with.

mod header;
mod process;
