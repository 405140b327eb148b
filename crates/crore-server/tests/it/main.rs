//! The built binary, as people and programs use it.

mod bench;
mod binary;
mod certificates;
mod clients;
mod commands;
mod config;
mod containers;
mod dev;
mod disk_failure;
mod drain;
mod follow_ups;
mod grpc;
mod handlers;
mod help;
mod hosts;
mod https;
mod jobworkerp;
mod lakh;
mod lifecycle;
mod logs;
mod metrics;
mod openapi;
mod posted;
mod security;
mod store;
mod traces;
