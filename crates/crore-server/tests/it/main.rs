//! The built binary, as people and programs use it.

mod bench;
mod binary;
mod broken;
mod certificates;
mod clients;
mod commands;
mod config;
mod containers;
mod described;
mod drain;
mod first_look;
mod follows;
mod grpc;
mod handlers;
mod help;
mod hosts;
mod https;
mod jobworkerp;
mod lakh;
mod life;
mod logs;
mod metrics;
mod posted;
mod safe;
mod store;
mod traces;
