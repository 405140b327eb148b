//! `crore info`.

use std::process::ExitCode;

use super::Call;

pub(crate) fn run(mut call: Call) -> anyhow::Result<ExitCode> {
    let info = call.client.get("/v1/info")?;
    call.out.one(&info, &["name", "version", "durability"])?;
    Ok(ExitCode::SUCCESS)
}
