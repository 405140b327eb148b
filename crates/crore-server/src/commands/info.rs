//! `crore info` and `crore storage`.

use std::process::ExitCode;

use super::CommandContext;
use crate::output::OutputFormat;

pub(crate) fn run(mut call: CommandContext) -> anyhow::Result<ExitCode> {
    let info = call.client.get("/v1/info")?;
    call.out.object(&info, &["name", "version", "durability"])?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the state of the store.
pub(crate) fn storage(mut call: CommandContext) -> anyhow::Result<ExitCode> {
    let mut storage = call.client.get("/v1/storage")?;
    if let Some(disk) = storage.get_mut("disk").and_then(serde_json::Value::as_object_mut)
        && call.out.format() == OutputFormat::Table
    {
        // A table shows the present.
        disk.remove("history");
    }
    call.out.object(&storage, &["durability", "problems", "disk", "backups", "started_at"])?;
    Ok(ExitCode::SUCCESS)
}
