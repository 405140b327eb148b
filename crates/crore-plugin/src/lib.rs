//! SDK for crore plugins in Rust.
//!
//! A plugin is a dynamic library (`crate-type = ["cdylib"]`) that crore loads into a child process. It has a
//! type that implements [`Plugin`], and one line that exports it:
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
//! A panic fails the job. Printed output becomes lines of the job's log.
//!
//! The underlying interface is plain C, in [`abi`] and `sdks/plugin/crore_plugin.h`, so plugin and crore may
//! be built by different compilers.
#![expect(unsafe_code, reason = "implements a C interface; each block says why it is sound")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod context;
mod error;
#[doc(hidden)]
pub mod export;

pub use context::Context;
pub use error::{Error, ErrorClass};

/// Runs jobs. crore creates one instance with [`Default`] per child process; a pooled instance runs many
/// jobs, one after another.
pub trait Plugin: Default + Send + 'static {
    /// A name that handlers may use, besides the name of the file.
    fn name() -> &'static str;

    /// Runs a job with its payload and returns zero or more output items.
    ///
    /// A long run must poll [`Context::is_cancelled`] and return if it is set.
    fn run(&mut self, argument: &[u8], context: &Context<'_>) -> Result<Vec<Vec<u8>>, Error>;
}
