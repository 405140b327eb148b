//! Runners with real processes, servers on loopback, and listeners that must see no connection.

mod command;
mod command_fixture;
mod docker;
mod grpc;
mod http;
mod outbound_fixture;
mod plugin;
mod pool;
mod recorded_run;
mod secrets;
mod slack;
mod tls_authority;
