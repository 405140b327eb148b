//! crore: a job queue in one binary. `crore serve` starts it; the other commands speak to it.

mod bind;
mod cli;
mod commands;
mod config;
mod dev;
mod drain;
mod environment;
mod exit;
mod jobworkerp;
mod logs;
mod out;
mod runners;
mod serve;
mod telemetry;
mod welcome;

use std::process::ExitCode;

use clap::Parser;

/// Jobs are made by one thread and dropped by another, which glibc's allocator takes twice as long for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => exit::tell(&error),
    }
}
