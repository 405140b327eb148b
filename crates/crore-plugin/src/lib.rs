//! Write a plugin of crore in Rust.
//!
//! A plugin is a dynamic library (`crate-type = ["cdylib"]`) that crore loads into a child process
//! and gives jobs to. It has a type that implements [`Plugin`], and one line that exports it:
//!
//! ```
//! use crore_plugin::{Context, Error, Plugin};
//!
//! #[derive(Default)]
//! struct Hello;
//!
//! impl Plugin for Hello {
//!     fn name() -> &'static str {
//!         "Hello"
//!     }
//!
//!     fn run(&mut self, argument: &[u8], context: &Context<'_>) -> Result<Vec<Vec<u8>>, Error> {
//!         context.log("about to greet");
//!         let name = std::str::from_utf8(argument).map_err(Error::fatal)?;
//!         Ok(vec![format!("hello, {name}").into_bytes()])
//!     }
//! }
//!
//! crore_plugin::export!(Hello);
//! ```
//!
//! A panic becomes an error of the job. What a plugin prints becomes lines of the job's log.
//!
//! The interface below it is C's, in [`abi`] and in `sdks/plugin/crore_plugin.h`: a plugin and a crore
//! that were built by different compilers fit together.
#![expect(unsafe_code, reason = "a C interface is spoken here; each block says why it is sound")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod context;
mod error;
#[doc(hidden)]
pub mod export;

pub use context::Context;
pub use error::{Class, Error};

/// What runs jobs. An instance is made with [`Default`] when the child process starts; one that is
/// pooled runs many jobs, one after another.
pub trait Plugin: Default + Send + 'static {
    /// What handlers may call it, besides the name of its file.
    fn name() -> &'static str;

    /// Runs a job with its payload, and gives what came out of it: nothing, one thing, or many.
    ///
    /// A run that takes long asks [`Context::is_cancelled`] now and then, and returns if so.
    fn run(&mut self, argument: &[u8], context: &Context<'_>) -> Result<Vec<Vec<u8>>, Error>;
}
