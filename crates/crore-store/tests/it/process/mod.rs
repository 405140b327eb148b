//! Real processes that work on an embedded store and are killed, and checks of what remains.
//!
//! A **child** works on a store with several threads and prints every request and every answer. Its
//! parent kills it at a random moment, opens the store and compares its content with the printed
//! lines. A bounded number of rounds runs as tests; `cargo xtask harm` runs them for hours, through
//! the example `harm`, which includes this folder.

mod child;
mod child_handle;
mod draft;
mod dump;
mod full;
mod harm;
mod ledger;
mod message;
mod rounds;
mod wait;
mod worker;

#[cfg(test)]
mod tests;

pub(crate) use child::run_child;
pub(crate) use harm::{Harm, harm};
#[cfg(test)]
pub(crate) use wait::wait;
