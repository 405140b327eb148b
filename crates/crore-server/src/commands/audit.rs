//! `crore audit`: the newest entries of the audit log.

use std::process::ExitCode;

use clap::Args;

use super::CommandContext;
use super::client::{list_field, with_query};
use crate::output::Column;

const COLUMNS: &[Column] = &[
    ("AT", "/at"),
    ("WHO", "/who"),
    ("FROM", "/from"),
    ("CALL", "/call"),
    ("STATUS", "/status"),
    ("CODE", "/code"),
    ("ABOUT", "/about"),
];

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Maximum number of entries, 1 to 1000
    #[arg(short, value_name = "N", default_value = "100")]
    n: usize,
}

pub(crate) fn run(mut call: CommandContext, args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let page = call.client.get(&with_query("/v1/audit", &[("limit", Some(args.n.to_string()))]))?;
    call.out.rows(COLUMNS, &list_field(page, "entries"))?;
    Ok(ExitCode::SUCCESS)
}
