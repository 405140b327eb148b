//! The `crore` binary. `crore serve` runs the server; most other commands are its clients.

mod banner;
mod bind;
mod cli;
mod commands;
mod config;
mod dev;
mod drain;
mod environment;
mod exit;
mod job_log;
mod jobworkerp;
mod logs;
mod output;
mod runners;
mod serve;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

/// Jobs are allocated on one thread and freed on another; glibc's allocator takes twice as long for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => exit::report_error(&error),
    }
}
