//! The harness, tested: it accepts stores that keep the contract and finds those that do not.

mod model;
mod plain;
mod sim;
