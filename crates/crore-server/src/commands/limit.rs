//! `crore limit`: ls, set, rm.

use std::process::ExitCode;

use clap::Subcommand;
use hyper::Method;
use serde_json::json;

use super::Call;
use super::client::{list, segment};

const EXAMPLES: &str = "\
Examples:
  crore limit set mail 'where kind = \"mail\" rate 100/1m'
  crore limit set tenants 'where queue = \"api\" concurrency 5 per payload.tenant'";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all limits
    Ls,
    /// Set a limit; jobs that wait already are brought under it
    #[command(after_help = EXAMPLES)]
    Set {
        /// Its name
        name: String,
        /// What it says: where …, rate N/SPAN, concurrency N, per FIELD
        limit: String,
    },
    /// Remove a limit
    Rm {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(mut call: Call, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ls => {
            let limits = list(call.client.get("/v1/limits")?, "limits");
            call.out.rows(&[("NAME", "/name"), ("LIMIT", "/limit")], &limits)?;
        }
        Command::Set { name, limit } => {
            let path = format!("/v1/limits/{}", segment(&name));
            call.client.call(&Method::PUT, &path, &json!({ "limit": limit }))?;
            call.out.did(&format!("the limit `{name}` holds"))?;
        }
        Command::Rm { name } => {
            let path = format!("/v1/limits/{}", segment(&name));
            call.client.delete(&path)?;
            call.out.did(&format!("the limit `{name}` is gone"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
