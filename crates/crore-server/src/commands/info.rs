//! `crore info`.

use std::process::ExitCode;

use super::CommandContext;

pub(crate) fn run(mut call: CommandContext) -> anyhow::Result<ExitCode> {
    let info = call.client.get("/v1/info")?;
    call.out.object(&info, &["name", "version", "durability"])?;
    Ok(ExitCode::SUCCESS)
}
