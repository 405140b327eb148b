//! The stores of this crate, as others see them.

mod memory;
mod model;
mod naive;
