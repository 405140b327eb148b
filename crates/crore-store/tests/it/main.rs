//! The stores of this crate, as others see them.

mod costs;
mod embedded;
mod memory;
mod naive;
mod process;
mod sim;
