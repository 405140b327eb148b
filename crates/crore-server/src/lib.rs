//! The program `crore`, as a library for its binary and for fuzz targets. `crore serve` runs the server; most other
//! commands are its clients.

mod banner;
mod bind;
mod cli;
mod commands;
mod config;
mod dev;
mod drain;
mod environment;
mod exit;
#[doc(hidden)]
pub mod fuzzing;
mod job_log;
mod jobworkerp;
mod logs;
mod output;
mod runners;
mod serve;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command of the process's arguments.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => exit::report_error(&error),
    }
}
