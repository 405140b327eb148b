//! Shared parts of the benchmarks. Each benchmark is a binary under `src/bin`, run by `cargo xtask bench NAME
//! --json FILE`; `crore-peers` uses the same parts.
//!
//! - [`args`], [`report`]: command line, table and JSON.
//! - [`machine`], [`work_dir`]: facts about the machine and the process; the directory of a run.
//! - [`driver`], [`contender`], [`interleave`]: load on few threads, the systems that take it, and alternating runs.
//! - [`embedded`]: the embedded store under that load.
//! - [`server`]: the built server and its bare baselines as child processes.
//!
//! A benchmark that meets an error panics: a figure after an error means nothing.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

pub mod args;
pub mod contender;
pub mod driver;
pub mod embedded;
pub mod interleave;
pub mod machine;
pub mod report;
pub mod server;
pub mod work_dir;
