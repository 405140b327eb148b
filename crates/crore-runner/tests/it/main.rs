//! Runners with real parts around them: processes, servers on ports of loopback, and listeners that must see
//! nothing.

mod command;
mod docker;
mod given;
mod grpc;
mod http;
mod plugin;
mod pool;
mod run;
mod secrets;
mod secure;
mod slack;
mod stage;
