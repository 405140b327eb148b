//! Push workers: crore calls them, one job at a time for each place that they have.
//!
//! ```text
//!  POST /worker ──► registry, roster ──► pick ──► fetch, under the worker's id ──► POST <url>/worker-job
//!  POST /done ────► finish ──► a place is free                                          │
//!                      ▲                                                                │
//!                      └────────── 200, with the report ◄───────────────────────────────┤
//!                                  202: later, by /done                                 │
//!                                  404: another worker ◄────────────────────────────────┘
//! ```
//!
//! A job is fetched when a worker has room for it, and under that worker's id: so the store knows who has
//! it, and a report finds its delivery also after a restart. What a worker's answer means is said at
//! `Answer`.

pub(super) mod answer;
pub(super) mod exchange;
mod handle;
mod options;
mod recall;
pub(super) mod registered;
mod roster;
mod service;
mod settle;
mod sign;

pub use handle::Handle;
pub use options::Options;
pub use service::{Did, Service};
pub use sign::Secret;
