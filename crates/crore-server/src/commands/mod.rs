//! What the commands do, a file each.

pub(crate) mod bench;
pub(crate) mod client;
mod completions;
mod config;
pub(crate) mod handler;
mod info;
pub(crate) mod job;
pub(crate) mod limit;
pub(crate) mod queue;
pub(crate) mod schedule;
mod stats;
mod store;
pub(crate) mod tls;
pub(crate) mod token;
mod worker;

use std::process::ExitCode;

use client::Client;
use serde_json::Value;

use crate::cli::{Command, Remote};
use crate::out::Out;
use crate::{dev, serve};

/// Does what was said.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(settings) => serve::run(&settings),
        Command::Dev { listen } => dev::run(&listen),
        Command::Config(command) => config::run(command),
        Command::Job { remote, command } => job::run(Call::new(&remote)?, command),
        Command::Queue { remote, command } => queue::run(Call::new(&remote)?, command),
        Command::Schedule { remote, command } => schedule::run(Call::new(&remote)?, command),
        Command::Limit { remote, command } => limit::run(Call::new(&remote)?, command),
        Command::Token { remote, command } => token::run(&remote, command),
        Command::Handler { remote, command } => handler::run(Call::new(&remote)?, command),
        Command::Worker { remote, command: Some(command), .. } => {
            worker::look(Call::new(&remote)?, &command)
        }
        Command::Worker { remote, hosting, command: None } => worker::run(&remote, &hosting),
        Command::Stats { remote, minutes } => stats::run(Call::new(&remote)?, minutes),
        Command::Info { remote } => info::run(Call::new(&remote)?),
        Command::Bench(args) => bench::run(&args),
        Command::Backup { remote, name: Some(name), .. } => {
            store::backup_running(Call::new(&remote)?, &name)
        }
        Command::Backup { data, to, .. } => {
            store::backup(&data.unwrap_or_default(), &to.unwrap_or_default())
        }
        Command::Verify { data } => store::verify(&data),
        Command::Repair { data } => store::repair(&data),
        Command::PluginHost { library } => Ok(crore_plugin_host::main(&library)),
        Command::Completions { shell } => completions::run(shell),
    }
}

/// What a command over the API needs: the server, and where its answers go.
#[derive(Debug)]
pub(crate) struct Call {
    client: Client,
    out: Out,
}

impl Call {
    fn new(remote: &Remote) -> anyhow::Result<Self> {
        Ok(Self { client: Client::new(remote)?, out: Out::new(remote.output) })
    }
}

/// An object of what was said; what was not is left out.
fn said<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let said = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(said.collect())
}
