//! crore: a durable job queue to embed, and the engine of the crore server.
//!
//! Programs push jobs; the engine keeps them safe, hands each to one worker at a time, retries,
//! schedules and limits them, and sees each through to an end. Everything that is answered is on the
//! disk.
//!
//! # The first durable job
//!
//! Open a directory, push, and work. What was pushed is there when the program starts again, in order.
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
//!     // `Ok`: the job is done and gone. `Err`: it is tried again.
//!     assert!(ran.is_ok());
//! }
//! assert_eq!(made, ["dog.png", "cat.png"]);
//! # Ok(())
//! # }
//! ```
//!
//! # With async, or without
//!
//! The engine needs no async runtime: its futures run on any, and each call has a blocking twin or can
//! be [blocked on](block_on).
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
//! # What is where
//!
//! The everyday calls are methods of [`Engine`]:
//!
//! | to | call |
//! |---|---|
//! | push a job, option by option | [`Engine::push`], [`Push`] |
//! | push a batch | [`Engine::push_all`] |
//! | repeat a push without pushing twice | [`Engine::push_once`], [`Push::idempotent`] |
//! | push and read types instead of bytes | `Engine::push_json` (feature `typed`) |
//! | run one job, or many at a time | [`Engine::pop`], [`Engine::worker`] |
//! | hand jobs to workers elsewhere | [`Engine::fetch`], [`Engine::renew`], [`Engine::finish`] |
//! | wait for a result, or listen to all events | [`Engine::wait`], [`Engine::listen`] |
//! | look at jobs | [`Engine::get`], [`Engine::list`] |
//! | ask why a job is not running | [`Engine::explain`] |
//! | back it up while it is in use | [`Engine::backup`] |
//!
//! All other calls are grouped by resource, on [handles](resources) such as `engine.queues()`:
//!
//! | to | call |
//! |---|---|
//! | cancel, retry, delete, change and count jobs | [`engine.jobs()`](resources::Jobs) |
//! | pause, drain and set queues | [`engine.queues()`](resources::Queues) |
//! | push jobs at given times | [`engine.schedules()`](resources::Schedules) |
//! | limit rate or concurrency | [`engine.limits()`](resources::Limits) |
//! | define how jobs of a kind are run, and what follows | [`engine.handlers()`](resources::Handlers) |
//! | look at groups of jobs, and seal them | [`engine.groups()`](resources::Groups) |
//! | wait for an end and take the result later | [`engine.results()`](resources::Results) |
//! | serve workers elsewhere | [`engine.deliveries()`](resources::Deliveries), [`engine.workers()`](resources::Workers) |
//! | keep access tokens | [`engine.tokens()`](resources::Tokens) |
//! | shut down gracefully | [`engine.lifecycle()`](resources::Lifecycle) |
//! | see durability, faults and caps | [`engine.status()`](resources::Status) |
//! | feed metrics and traces | [`engine.telemetry()`](resources::Telemetry) |
//! | run an engine without its thread | [`Engine::without_thread`], [`engine.upkeep()`](resources::Upkeep) |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod act;
mod backup;
mod block;
mod bug;
mod change;
mod deliveries;
mod dispatch;
mod doubt;
mod engine;
mod error;
pub mod events;
pub mod explain;
pub mod fetch;
pub mod finish;
mod groups;
pub mod handlers;
mod hold;
mod idempotency;
mod jobs;
mod leases;
mod lifecycle;
mod limits;
pub mod pop;
pub mod push;
mod pusher;
mod queues;
mod registry;
pub mod resources;
mod results;
mod running;
mod schedules;
mod status;
mod timers;
mod tokens;
#[cfg(feature = "typed")]
pub mod typed;
mod upkeep;
pub mod watch;
mod worker;
mod workers;
mod writes;

pub use block::block_on;
pub use engine::{Engine, Options};
pub use error::Error;
pub use idempotency::IdempotencyKey;
pub use pop::Work;
pub use pusher::Push;
pub use results::Ended;
#[cfg(feature = "typed")]
pub use typed::Json;
pub use worker::{Stop, Worker};

pub use crore_core as core;
pub use crore_store as store;
