//! Fuzz targets: every reader of bytes from outside, with the properties that it must keep.
//!
//! A target is a plain function of its input. It panics if a property is broken: the reader panics, uses more memory
//! than its bound, returns an error that is too long, or prints a value that then parses differently. `fuzz/` runs the
//! targets with libFuzzer; the tests of this crate run them on the inputs in `fuzz/corpus`.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![warn(missing_docs)]

mod call;
mod config;
mod connection;
mod handlers;
pub mod memory;
mod messages;
mod plugin;
mod properties;
mod recover;
mod server;
mod texts;
mod values;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// The name of its binary in `fuzz/`, and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> FuzzTarget {
    FuzzTarget { name, run }
}

/// Every target.
pub const TARGETS: &[FuzzTarget] = &[
    target("config", config::run),
    target("connection", connection::run),
    target("grpc", call::grpc),
    target("handlers", handlers::run),
    target("http", call::http),
    target("messages", messages::run),
    target("plugin", plugin::run),
    target("queues", call::queues),
    target("recover", recover::run),
    target("texts", texts::run),
    target("values", values::run),
];

/// Runs one of many inputs, as libFuzzer does. Inputs share a server, because starting one takes longer than most
/// inputs; `server.rs` describes how to reproduce a failure.
pub fn fuzz(name: &str, input: &[u8]) {
    server::reuse_servers();
    run(name, input);
}

/// Runs one input on the target with this name, independently of all others.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("the target is in the list");
    (target.run)(input);
}
