//! The child process seen from outside, and the C header.

mod header;
mod process;
