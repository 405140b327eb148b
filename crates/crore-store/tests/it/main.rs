//! Integration tests of the stores of this crate.

mod costs;
mod embedded;
mod memory;
mod naive;
mod process;
mod sim;
