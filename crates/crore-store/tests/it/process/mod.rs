//! Real processes that work on an embedded store and die, and what has to be there afterwards.
//!
//! A **child** works on a store with several threads and says, line by line, what it asks for and
//! what it is told. Its parent ends it at a random moment, opens the store itself and holds what it
//! finds against what was said. The same rounds run as tests, a bounded number of them, and for hours
//! by `cargo xtask harm`: then this folder is part of the example `harm`.

mod child;
mod draft;
mod dump;
mod full;
mod hand;
mod harm;
mod ledger;
mod rounds;
mod said;
mod victim;
mod wait;

#[cfg(test)]
mod tests;

pub(crate) use child::run_child;
pub(crate) use harm::{Harm, harm};
#[cfg(test)]
pub(crate) use wait::wait;
