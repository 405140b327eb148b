//! What tests need and a running crore never does: real database servers that cannot outlive the
//! test, a clock in the test's hand, and signals to wait for instead of sleeping.
//!
//! A test that needs a server asks [`shared`] for one and takes a schema or key prefix of its own
//! from [`unique_name`]. A test that stops, kills or fills its server starts one for itself, with
//! [`Postgres::start`] and its siblings. Programs from PyPI come by [`Pypi`], and those from npm by [`Npm`]. On a machine
//! without the server's package both give [`Error::Missing`], which [`or_skip`] turns into a loud skip; where `CI=true` is set nothing
//! may be skipped, so they panic.
//!
//! What a test drives can be written down in a [`history`], which is then held to the promises. With the feature
//! `http-peer` there is an HTTP server whose replies a test chooses.
//!
//! Servers need Linux and util-linux (`setsid`, `setpriv`); the rest needs only std.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod dice;
mod download;
mod environment;
mod error;
mod eventually;
pub mod history;
#[cfg(feature = "http-peer")]
pub mod http_peer;
mod install;
pub mod mount;
mod npm;
mod pypi;
mod server;
mod server_binary;
pub mod shared;
mod signal;
mod unique;

pub use clock::FakeClock;
pub use dice::Dice;
pub use error::{Error, or_skip};
pub use eventually::{Check, eventually, eventually_async};
pub use install::install_missing;
pub use npm::Npm;
pub use pypi::Pypi;
pub use server::docker::Docker;
pub use server::mariadb::MariaDb;
pub use server::package::Package;
pub use server::port::free_port;
pub use server::postgres::Postgres;
pub use server::redis::Redis;
pub use server::redis_cluster::RedisCluster;
pub use server::{Durability, Launch, Process};
pub use server_binary::server_binary;
pub use signal::{Emitter, Signal, Wait};
pub use unique::unique_name;
