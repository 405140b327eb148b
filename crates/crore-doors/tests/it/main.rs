//! The doors on real ports, spoken to by a real client and by raw bytes.
#![expect(clippy::expect_used, reason = "a test panics, and says why")]

mod access;
mod audit;
mod bad;
mod bad_ancestors;
mod bad_requests;
mod batches;
mod calls;
mod described;
mod floods;
mod grpc;
mod guard;
mod handlers;
mod jobber;
mod jobworkerp;
mod lakh;
mod lightjq;
mod long;
mod place;
mod push_workers;
mod raw;
mod server;
mod slow;
mod tls;
mod waits;
