//! Runners: code inside crore that runs jobs.
//!
//! A *handler* says that jobs of a kind are run by a runner of some sort, with some settings. A
//! [`Maker`] reads such settings and makes a [`Runner`] from them; [`Runners`] knows all makers that
//! there are, and which of them the operator allows.
//!
//! | to | see |
//! |---|---|
//! | bring a runner of one's own | [`Runner`], [`Maker`], [`Runners::with`] |
//! | have jobs run | [`Host`] |
//! | run a job by its handler, with a pool or without | [`Runners::run`], [`Recipe`] |
//! | run an image in a container | [`docker`] |
//! | run what a dynamic library does, in a child process | [`plugin`] |
//! | say what runners may do | [`Options`] |
//! | know what a run is given, and what it gives | [`Task`], [`Context`], [`Output`], [`Failure`] |
#![warn(missing_docs)]

mod argument;
pub mod command;
mod context;
pub mod docker;
mod grpc;
mod host;
mod http;
mod mask;
mod options;
mod output;
mod pattern;
pub mod plugin;
mod pool;
mod reach;
mod run;
mod runner;
mod runners;
mod secret;
mod settings;
mod slack;
mod urls;
mod values;

pub use context::{Context, Said};
pub use grpc::Grpc;
pub use host::Host;
pub use http::Http;
pub use options::{Count, Cpus, Options, Variables};
pub use pattern::{EmptyPattern, Pattern, Patterns};
pub use reach::Reach;
pub use run::Recipe;
pub use runner::{Beginning, Class, Failure, Item, Maker, Making, Output, Runner, Running, Task};
pub use runners::Runners;
pub use secret::Secret;
pub use settings::read;
pub use slack::Slack;
pub use urls::{NoUrlPattern, UrlPattern, Urls};
