//! `crore worker`.

use std::process::ExitCode;

use super::Call;
use super::client::list;
use crate::cli::WorkerCommand;

pub(crate) fn run(mut call: Call, command: &WorkerCommand) -> anyhow::Result<ExitCode> {
    match command {
        WorkerCommand::Ls => {
            let workers = list(call.client.get("/v1/workers")?, "workers");
            call.out
                .rows(&[("WORKER", "/name"), ("UNTIL", "/until"), ("ABOUT", "/about")], &workers)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
