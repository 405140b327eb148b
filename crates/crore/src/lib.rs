//! crore: an embeddable durable job queue, and the engine of the crore server.
//!
//! A program pushes jobs. The engine stores each of them, leases it to one worker at a time, retries it after a
//! failure, applies schedules and limits, and keeps its result. A call returns when its effect is durable: with a
//! queue in a directory, that means on the disk.
//!
//! # Quick start
//!
//! Open a directory, push jobs, and run them. The jobs survive a restart of the program and keep their order.
//!
//! ```
//! use crore::Engine;
//!
//! # fn main() -> Result<(), crore::Error> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! # let path = dir.path().join("jobs.crore");
//! # #[cfg(any())]
//! let path = "jobs.crore";
//! let engine = Engine::open(&path)?;
//! engine.push("thumbnails", "cat.png").wait()?;
//! engine.push("thumbnails", "dog.png").priority(-5).wait()?;
//! engine.stop()?;
//! drop(engine);
//!
//! // The next day.
//! let engine = Engine::open(&path)?;
//! let mut made = Vec::new();
//! while let Some(ran) = engine.pop_blocking("thumbnails", |work| {
//!     made.push(String::from_utf8(work.payload().to_vec())?);
//!     Ok::<(), std::string::FromUtf8Error>(())
//! })? {
//!     // `Ok`: the job is done and removed. `Err`: it is retried.
//!     assert!(ran.is_ok());
//! }
//! assert_eq!(made, ["dog.png", "cat.png"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Async or blocking
//!
//! The engine needs no async runtime. Its futures run on any executor; without one, use [`block_on`] or the
//! blocking variants such as [`Engine::pop_blocking`].
//!
//! ```
//! use crore::{Engine, Error, block_on};
//!
//! async fn first_job(engine: &Engine) -> Result<(), Error> {
//!     let id = engine.push("mail", "hello").await?;
//!     let ran = engine.pop("mail", async |work| {
//!         assert_eq!(work.id, id);
//!         Ok::<(), String>(())
//!     });
//!     assert_eq!(ran.await?, Some(Ok(())));
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Error> {
//! block_on(first_job(&Engine::memory()))
//! # }
//! ```
//!
//! # Overview
//!
//! The everyday calls are methods of [`Engine`]:
//!
//! | to | call |
//! |---|---|
//! | push a job, with options | [`Engine::push`], [`Push`] |
//! | push a batch | [`Engine::push_all`] |
//! | retry a push without creating duplicates | [`Engine::push_once`], [`Push::idempotent`] |
//! | push and read serde types instead of bytes | `Engine::push_json` (feature `typed`) |
//! | run one job, or many concurrently | [`Engine::pop`], [`Engine::worker`] |
//! | serve jobs to remote workers | [`Engine::fetch`], [`Engine::renew`], [`Engine::finish`] |
//! | wait for a result, or subscribe to all events | [`Engine::wait`], [`Engine::listen`] |
//! | look up and list jobs | [`Engine::get`], [`Engine::list`] |
//! | find out why a job is not running | [`Engine::explain`] |
//! | back up a store while it is in use | [`Engine::backup`] |
//!
//! All other calls are grouped by resource, on [handles](resources) such as `engine.queues()`:
//!
//! | to | call |
//! |---|---|
//! | cancel, retry, delete, edit and count jobs | [`engine.jobs()`](resources::Jobs) |
//! | configure, pause and drain queues | [`engine.queues()`](resources::Queues) |
//! | push jobs by cron expression or interval | [`engine.schedules()`](resources::Schedules) |
//! | limit rate or concurrency | [`engine.limits()`](resources::Limits) |
//! | define how jobs of a kind are run, and their follow-ups | [`engine.handlers()`](resources::Handlers) |
//! | send events that jobs wait for | [`engine.events()`](resources::NamedEvents) |
//! | inspect and seal groups of jobs | [`engine.groups()`](resources::Groups) |
//! | wait for the end of a job and take its result separately | [`engine.results()`](resources::Results) |
//! | serve remote workers | [`engine.deliveries()`](resources::Deliveries), [`engine.workers()`](resources::Workers) |
//! | search for jobs by a filter | [`Engine::search`] |
//! | keep records of bulk operations | [`engine.operations()`](resources::OperationRecords) |
//! | manage access tokens | [`engine.tokens()`](resources::Tokens) |
//! | shut down gracefully | [`engine.lifecycle()`](resources::Lifecycle) |
//! | inspect durability, store faults and caps | [`engine.status()`](resources::Status) |
//! | feed metrics and traces | [`engine.telemetry()`](resources::Telemetry) |
//! | run upkeep without a thread | [`Engine::without_thread`], [`engine.upkeep()`](resources::ManualUpkeep) |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod actions;
mod backup;
mod block;
mod bug;
mod change;
mod connected_versions;
mod deliveries;
mod drop_guard;
mod engine;
mod error;
pub mod events;
pub mod explain;
pub mod fetch;
pub mod finish;
mod groups;
pub mod handlers;
mod idempotency;
mod jobs;
mod leases;
mod lifecycle;
mod limits;
mod named_events;
pub mod observer;
mod operation_records;
pub mod pop;
pub mod push;
mod push_builder;
mod queues;
mod registry;
mod renewed_leases;
pub mod replay;
mod requirements;
pub mod resources;
mod results;
mod running;
mod schedules;
pub mod search;
mod status;
mod timers;
mod tokens;
#[cfg(feature = "typed")]
pub mod typed;
mod upkeep;
mod wait_list;
mod worker;
mod workers;
mod writes;

pub use block::block_on;
pub use engine::{Engine, Options};
pub use error::Error;
pub use idempotency::IdempotencyKey;
pub use pop::Work;
pub use push_builder::Push;
pub use results::EndedJob;
#[cfg(feature = "typed")]
pub use typed::Json;
pub use worker::{Worker, WorkerStopper};

pub use crore_core as core;
pub use crore_store as store;

/// Compiles the examples in the documentation of the repository.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct DocumentationExamples;
