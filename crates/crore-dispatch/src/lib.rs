//! Push workers: HTTP servers that crore posts jobs to.
//!
//! ```text
//!  a door registers a worker ──► registry, roster ──► pick ──► fetch, under the worker's id ──► POST <url>/<path>
//!  a door reports a delivery ──► a slot is free                                                   │
//!                      ▲                                                                          │
//!                      └────────── 200, with the report ◄─────────────────────────────────────────┤
//!                                  202: the report comes later, through the door                  │
//!                                  404: another worker is asked ◄─────────────────────────────────┘
//! ```
//!
//! The dispatcher fetches a job when a worker has a free slot, and under that worker's id. The store therefore knows
//! which worker has it, and a report finds its delivery after a restart too. A door implements [`Protocol`]:
//! its queue, the request that carries a job, and the meaning of a report. The meaning of status codes is the same for
//! all protocols (`response.rs`).
//!
//! A door keeps a [`Handle`]; one task runs the [`DispatchService`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::expect_used, reason = "tests may panic"))]

mod delivery;
mod handle;
mod options;
mod protocol;
mod recovery;
mod registration;
mod request;
mod response;
mod roster;
mod service;
mod signature;

pub use handle::Handle;
pub use options::Options;
pub use protocol::{JobRequest, Protocol};
pub use registration::{Registration, check_terms};
pub use service::{DispatchRound, DispatchService};
pub use signature::SigningSecret;
