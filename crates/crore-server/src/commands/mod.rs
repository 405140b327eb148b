//! Implementations of the subcommands, one module each.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod client;
mod completions;
mod config;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod group;
pub(crate) mod handler;
mod info;
pub(crate) mod job;
pub(crate) mod limit;
pub(crate) mod queue;
pub(crate) mod schedule;
pub(crate) mod stats;
mod store;
mod store_report;
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod top;
mod word;
mod worker;

use std::process::ExitCode;

use client::ApiClient;
use serde_json::Value;

use crate::cli::{CliCommand, RemoteArgs};
use crate::output::CommandOutput;
use crate::{dev, serve};

/// Runs a subcommand.
pub(crate) fn run(command: CliCommand) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Serve(settings) => serve::run(&settings),
        CliCommand::Dev { listen } => dev::run(&listen),
        CliCommand::Config(command) => config::run(command),
        CliCommand::Job { remote, command } => job::run(CommandContext::new(&remote)?, command),
        CliCommand::Group { remote, command } => group::run(CommandContext::new(&remote)?, command),
        CliCommand::Error { remote, command } => error::run(CommandContext::new(&remote)?, command),
        CliCommand::Event { remote, command } => event::run(CommandContext::new(&remote)?, command),
        CliCommand::Queue { remote, command } => queue::run(CommandContext::new(&remote)?, command),
        CliCommand::Schedule { remote, command } => {
            schedule::run(CommandContext::new(&remote)?, command)
        }
        CliCommand::Limit { remote, command } => limit::run(CommandContext::new(&remote)?, command),
        CliCommand::Token { remote, command } => token::run(&remote, command),
        CliCommand::Handler { remote, command } => {
            handler::run(CommandContext::new(&remote)?, command)
        }
        CliCommand::Worker { remote, command: Some(command), .. } => {
            worker::list(CommandContext::new(&remote)?, &command)
        }
        CliCommand::Worker { remote, hosting, command: None } => worker::run(&remote, &hosting),
        CliCommand::Audit { remote, what } => audit::run(CommandContext::new(&remote)?, &what),
        CliCommand::Storage { remote } => info::storage(CommandContext::new(&remote)?),
        CliCommand::Stats { remote, what } => stats::run(CommandContext::new(&remote)?, &what),
        CliCommand::Top { remote, what } => top::run(CommandContext::new(&remote)?, what),
        CliCommand::Info { remote } => info::run(CommandContext::new(&remote)?),
        CliCommand::Bench(args) => bench::run(&args),
        CliCommand::Backup { remote, name: Some(name), .. } => {
            store::backup_running(CommandContext::new(&remote)?, &name)
        }
        CliCommand::Backup { remote, data, to, .. } => {
            let out = CommandOutput::new(remote.output);
            store::backup(out, &data.unwrap_or_default(), &to.unwrap_or_default())
        }
        CliCommand::Verify { data, output } => store::verify(CommandOutput::new(output), &data),
        CliCommand::Repair { data, output } => store::repair(CommandOutput::new(output), &data),
        CliCommand::PluginHost { library } => Ok(crore_plugin_host::main(&library)),
        CliCommand::Completions { shell } => completions::run(shell),
    }
}

/// Context of a command that calls the API: the client and the output.
#[derive(Debug)]
pub(crate) struct CommandContext {
    client: ApiClient,
    out: CommandOutput,
}

impl CommandContext {
    fn new(remote: &RemoteArgs) -> anyhow::Result<Self> {
        Ok(Self { client: ApiClient::new(remote)?, out: CommandOutput::new(remote.output) })
    }
}

/// A JSON object of the fields that have a value.
fn object_of<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}
