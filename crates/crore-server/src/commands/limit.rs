//! `crore limit`: ls, set, rm.

use std::process::ExitCode;

use clap::Subcommand;
use hyper::Method;
use serde_json::json;

use super::CommandContext;
use super::client::{list_field, path_segment};

const EXAMPLES: &str = "\
Examples:
  crore limit set mail 'where kind = \"mail\" rate 100/1m'
  crore limit set tenants 'where queue = \"api\" concurrency 5 per payload.tenant'";

#[derive(Debug, Subcommand)]
pub(crate) enum LimitCommand {
    /// List limits
    Ls,
    /// Create or replace a limit; it also applies to jobs already pushed
    #[command(after_help = EXAMPLES)]
    Set {
        /// Name of the limit
        name: String,
        /// Definition: [where CONDITION] [rate N/DURATION] [burst N] [cost FIELD] [concurrency N] [per FIELD];
        /// see docs/guide/limits.md
        limit: String,
    },
    /// Delete a limit
    Rm {
        /// Name of the limit
        name: String,
    },
}

pub(crate) fn run(mut call: CommandContext, command: LimitCommand) -> anyhow::Result<ExitCode> {
    match command {
        LimitCommand::Ls => {
            let limits = list_field(call.client.get("/v1/limits")?, "limits");
            let columns = [("NAME", "/name"), ("LIMIT", "/limit"), ("WAITING", "/waiting")];
            call.out.rows(&columns, &limits)?;
        }
        LimitCommand::Set { name, limit } => {
            let path = format!("/v1/limits/{}", path_segment(&name));
            call.client.call(&Method::PUT, &path, &json!({ "limit": limit }))?;
            call.out.confirm(&format!("limit `{name}` set"))?;
        }
        LimitCommand::Rm { name } => {
            let path = format!("/v1/limits/{}", path_segment(&name));
            call.client.delete(&path)?;
            call.out.confirm(&format!("limit `{name}` deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
