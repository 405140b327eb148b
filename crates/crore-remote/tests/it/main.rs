//! The stores of this crate, on real servers.

mod postgres;
