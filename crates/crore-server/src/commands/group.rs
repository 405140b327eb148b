//! `crore group`: ls, new, get, seal.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::CommandContext;
use super::client::{list_field, path_segment, with_query};
use crate::output::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  crore group new                          prints the id, here 1
  crore job push part --group 1
  crore job push merge --after-group 1     waits for all members
  crore group seal 1                       no further members";

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List groups, newest first
    Ls {
        /// Maximum number of groups, 1 to 1000
        #[arg(short, value_name = "N", default_value = "100")]
        n: usize,
    },
    /// Create an empty group, which jobs join with `crore job push --group`
    #[command(after_help = EXAMPLES)]
    New,
    /// Show the progress of a group
    Get {
        /// Group id
        id: String,
    },
    /// Seal a group: no further jobs can join, and it ends when all of its members have ended
    Seal {
        /// Group id
        id: String,
    },
}

const FIRST_FIELDS: &[&str] = &["id", "size", "ran", "succeeded", "sealed", "lost"];

pub(crate) fn run(mut call: CommandContext, command: GroupCommand) -> anyhow::Result<ExitCode> {
    match command {
        GroupCommand::Ls { n } => {
            let page =
                call.client.get(&with_query("/v1/groups", &[("limit", Some(n.to_string()))]))?;
            let columns = [
                ("GROUP", "/id"),
                ("SIZE", "/size"),
                ("ENDED", "/ran"),
                ("DONE", "/succeeded"),
                ("SEALED", "/sealed"),
                ("LOST", "/lost"),
                ("CHANGED", "/changed_at"),
            ];
            call.out.rows(&columns, &list_field(page, "groups"))?;
        }
        GroupCommand::New => {
            let body = json!({ "groups": [{ "open": true }], "jobs": [] });
            let made = call.client.post("/v1/jobs", &body)?;
            let id = list_field(made, "groups").pop().unwrap_or_default();
            match call.out.format() {
                OutputFormat::Table => call.out.line(id.as_str().unwrap_or_default())?,
                OutputFormat::Json | OutputFormat::Jsonl => {
                    call.out.object(&json!({ "id": id }), &[])?;
                }
            }
        }
        GroupCommand::Get { id } => {
            let group = call.client.get(&path(&id))?;
            call.out.object(&group, FIRST_FIELDS)?;
        }
        GroupCommand::Seal { id } => {
            let group = call.client.post(&format!("{}/seal", path(&id)), &json!({}))?;
            call.out.object(&group, FIRST_FIELDS)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn path(id: &str) -> String {
    format!("/v1/groups/{}", path_segment(id))
}
