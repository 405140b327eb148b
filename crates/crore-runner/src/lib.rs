//! Runners: code inside crore that runs jobs.
//!
//! A *handler* says which runner type runs the jobs of a kind, and with which settings. A [`RunnerFactory`]
//! implements one runner type: it checks such settings and makes a [`Runner`] from them.
//! [`Runners`] is the registry of all types and of those that the operator allows.
//!
//! | to | see |
//! |---|---|
//! | implement a runner | [`Runner`], [`RunnerFactory`], [`Runners::with`] |
//! | run jobs that have a handler | [`Host`] |
//! | run one job, pooled or not | [`Runners::run`], [`RunSpec`] |
//! | run an image in a container | [`docker`] |
//! | run a dynamic library in a child process | [`plugin`] |
//! | restrict what runners may do | [`Options`] |
//! | see the input and output of a run | [`Task`], [`RunContext`], [`Output`], [`RunFailure`] |
#![warn(missing_docs)]

mod argument;
pub mod command;
mod context;
pub mod docker;
mod grpc;
mod host;
mod http;
mod mask;
mod network;
mod options;
mod output;
mod pattern;
pub mod plugin;
mod pool;
mod run;
mod runner;
mod runners;
mod secret;
mod settings;
mod slack;
mod urls;
mod values;

pub use context::{RunContext, RunMessage};
pub use grpc::GrpcFactory;
pub use host::Host;
pub use http::HttpFactory;
pub use network::NetworkAccess;
pub use options::{Capability, Cpus, Options, PositiveCount, Variables};
pub use pattern::{EmptyPattern, Pattern, Patterns};
pub use run::RunSpec;
pub use runner::{
    EncodedBytes, FailureClass, MakeFuture, Output, PrepareFuture, RunFailure, RunFuture, Runner,
    RunnerFactory, Task,
};
pub use runners::Runners;
pub use secret::SecretRef;
pub use settings::read;
pub use slack::SlackFactory;
pub use urls::{InvalidUrlPattern, UrlPattern, Urls};
