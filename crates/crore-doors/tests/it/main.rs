//! The doors on real ports, called by real clients and by raw bytes.
#![expect(clippy::expect_used, reason = "tests may panic")]

mod access;
mod audit;
mod bad;
mod bad_ancestors;
mod bad_requests;
mod batches;
mod calls;
mod grpc;
mod guard;
mod handlers;
mod http2_floods;
mod if_match;
mod in_flight;
mod jobber;
mod jobworkerp;
mod lakh;
mod lightjq;
mod local_server;
mod matrix;
mod named_events;
mod openapi;
mod operations;
mod peer_users;
mod push_workers;
mod raw;
mod replay;
mod restricted;
mod search;
mod server;
mod slow;
mod slow_responses;
mod stats;
mod tls;
mod versions;
mod waits;
