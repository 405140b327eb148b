//! Client and worker for a crore server, over gRPC.
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
//! Concurrent pushes are sent in batches; each returns when its job is durable.
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
//! A worker that loses its connection reconnects and keeps its jobs. If a worker dies, the server gives its jobs to
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
pub use crore_core::machine::RetryDirective;
pub use crore_core::{Encoding, JobId, Payload};
pub use crore_wire::grpc::v1;
pub use crore_wire::worker::{HandlerRevision, JobDelivery, JobHandler};
pub use error::{Error, Problem};
pub use job::Job;
pub use worker::{Delivery, IntoOutcome, Outcome, StopHandle, Worker, WorkerTransport};
