//! The child process of a plugin, and its protocol.
//!
//! A plugin is foreign machine code and never runs inside the host that executes handlers (`crore serve` or
//! `crore worker`). The host starts [`main`] in a child process, which loads the library and serves requests
//! until its input ends. A crash costs only the job that was running.
//!
//! ```text
//!            standard input: requests          one pipe
//!     host ───────────────────────────►  child
//!          ◄───────────────────────────
//!            standard output: replies          one socket, in both directions
//!          ───────────────────────────►
//!            cancellations; closes when the host ends
//! ```
//!
//! One thread reads requests and runs the plugin, another waits for cancellations, so a call is one write and one
//! read on each side without a thread switch. Output that the plugin prints goes to standard error.
#![expect(unsafe_code, reason = "loads and calls a library; each block says why it is sound")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod channels;
pub mod frame;
mod host_context;
mod instance;
mod library;
mod serve;

pub use serve::{main, serve};
