//! The shared layer of all doors of crore.
//!
//! [`Api`] holds an engine and offers the calls of the native API as typed functions ([`calls`]); a door decodes a
//! request, makes one call and encodes the response. Around them are [`access`] (tokens and scopes), [`admission`]
//! (middleware of every call), the [`budget`] for bytes in flight, the [`audit`] log, [`Fault`] (an error response, in
//! HTTP and [`grpc`]), content [`negotiation`], [`body`], [`params`], [`job_uuid`], [`metrics`] and [`telemetry`].
//!
//! The crate opens no listener and knows no protocol except the HTTP request that every door starts from.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::expect_used, reason = "tests may panic"))]

pub mod access;
pub mod admission;
mod admitted_call;
mod api;
pub mod audit;
mod background;
pub mod body;
pub mod budget;
pub mod bug;
pub mod calls;
mod cursor;
mod errors;
mod fault;
pub mod grpc;
mod guarded_body;
pub mod if_match;
pub mod job_uuid;
mod marks;
mod mask;
mod metered_body;
pub mod metrics;
pub mod middleware;
pub mod negotiation;
mod observer;
mod operations;
pub mod params;
mod recent_counts;
pub mod request_log;
mod response_room;
mod revocation;
mod scope;
mod status;
pub mod telemetry;
mod worker_versions;

pub use access::Grant;
pub use admitted_call::AdmittedCall;
pub use api::{Api, ApiSetup, ConnectedWorker, ConnectedWorkers, Options, WorkerRequest};
pub use fault::{Fault, in_format};
pub use guarded_body::{BodyEnd, GuardedBody};
pub use mask::MaskedField;
pub use observer::Observer;
pub use response_room::ResponseRoom;
pub use revocation::RevocationWatch;
pub use scope::{Scope, Scopes};
pub use status::status;
