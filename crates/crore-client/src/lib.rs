//! A client and a worker for crore.
//!
//! # Push
//!
//! ```no_run
//! use crore_client::{Client, Job};
//!
//! # async fn first() -> Result<(), crore_client::Error> {
//! let client = Client::connect("http://127.0.0.1:9000").await?;
//! let id = client.push(Job::new("mail").json(&"hello")?).await?;
//! println!("job {id} is on the disk");
//! # Ok(())
//! # }
//! ```
//!
//! Pushes that are made at the same time travel together, and each is answered when it is on the disk.
//!
//! # Work
//!
//! ```no_run
//! use crore_client::{Client, Worker};
//!
//! # async fn work() -> Result<(), crore_client::Error> {
//! let client = Client::connect("http://127.0.0.1:9000").await?;
//! Worker::new(&client)
//!     .slots(10)
//!     .handle("mail", |job| async move {
//!         let text: String = job.json()?;
//!         println!("{text}");
//!         Ok::<_, crore_client::Error>(())
//!     })
//!     .run()
//!     .await
//! # }
//! ```
//!
//! A worker that loses its connection comes back and keeps its jobs; one that dies has its jobs given to
//! others within a second.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backoff;
mod client;
mod error;
mod job;
mod pusher;
mod worker;

pub use client::{Builder, Client};
pub use crore_core::machine::Again;
pub use crore_core::{Encoding, JobId, Payload};
pub use crore_wire::grpc::v1;
pub use crore_wire::worker::{Delivered, Handled, HandlerRevision};
pub use error::{Error, Problem};
pub use job::Job;
pub use worker::{Delivery, Outcome, Reply, Stop, Way, Worker};
