//! crore: the job queue in one binary.
mod config;
mod environment;
fn main() {}
