//! The built binary, as people and programs use it.

mod binary;
mod broken;
mod certificates;
mod clients;
mod commands;
mod config;
mod described;
mod drain;
mod first_look;
mod grpc;
mod help;
mod https;
mod lakh;
mod life;
mod logs;
mod metrics;
mod posted;
mod safe;
mod store;
mod traces;
