//! Runners with real parts around them: processes, servers on ports of loopback, and listeners that must see
//! nothing.

mod command;
mod docker;
mod example;
mod given;
mod grpc;
mod http;
#[expect(dead_code, reason = "the tests of other crates use the rest")]
#[path = "../../../crore-outbound/tests/it/peer.rs"]
mod peer;
mod plugin;
mod pool;
mod run;
mod secrets;
mod secure;
mod slack;
mod stage;
