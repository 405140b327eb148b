//! The stores of this crate, as others see them.

mod costs;
mod embedded;
mod memory;
mod model;
mod naive;
mod plain;
mod process;
mod sim;
