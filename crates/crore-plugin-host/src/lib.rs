//! The child process that a plugin runs in, and how it is spoken to.
//!
//! A plugin is somebody else's machine code. It never runs in the server: whoever wants it run starts
//! [`main`] in a child process, which loads the library and answers requests until it is let go. What
//! the plugin does to its process costs the job that it was running.
//!
//! ```text
//!            standard input: requests          one pipe
//!   server ───────────────────────────►  child
//!          ◄───────────────────────────
//!            standard output: answers          one socket, in both directions
//!          ───────────────────────────►
//!            cancels; its end is the server's end
//! ```
//!
//! One thread reads requests and runs the plugin, another waits for cancels: so a call is one write
//! and one read on each side, with nobody to be woken in between. What the plugin itself prints goes
//! to standard error.
#![expect(unsafe_code, reason = "a library is loaded and called; each block says why it is sound")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod channels;
pub mod frame;
mod instance;
mod library;
mod serve;
mod surroundings;

pub use serve::{main, serve};
