//! Builds the configured runners and the host that runs jobs with them.

mod orphaned_jobs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use crore_client::WorkerTransport;
use crore_core::settings::Reference;
use crore_core::{Name, Size, Span};
use crore_doors::Doors;
use crore_outbound::Outbound;
use crore_runner::command::CommandFactory;
use crore_runner::docker::DockerFactory;
use crore_runner::plugin::{self, PluginFactory};
use crore_runner::{
    GrpcFactory, Host, HttpFactory, NetworkAccess, Options, Pattern, Runners, SecretRef,
    SlackFactory, Urls, Variables,
};
use rustix::process::DumpableBehavior;

use crate::config::Config;
use crate::environment;
use crate::exit::{CliError, FailureCode};

pub(crate) use orphaned_jobs::release_orphaned_jobs;

/// Hidden subcommand of this binary that hosts a plugin in a child process.
pub(crate) const PLUGIN_HOST: &str = "plugin-host";

/// Builds the runners for a process with these restrictions on outgoing calls and this data directory.
pub(crate) fn build(
    config: &Config,
    outbound: Outbound,
    data: Option<&Path>,
) -> anyhow::Result<Arc<Runners>> {
    let options = options(config, data);
    if !config.runners.allowed().is_empty() {
        hide_from_programs();
    }
    let network = NetworkAccess::new(outbound, options.urls.clone());
    let named = config.jobworkerp.slack_token.as_ref().map(Reference::as_str);
    let named = named.map(str::parse::<Pattern>).transpose()?;
    SecretRef::allow_only(options.secrets.clone().and(named));
    let mut runners = Runners::new()
        .with(CommandFactory::new(options.clone()))
        .with(DockerFactory::new(options.clone()))
        .with(HttpFactory::new(network.clone()))
        .with(GrpcFactory::new(network.clone()))
        .with(SlackFactory::new(network));
    if let Some(dir) = &options.plugins {
        if !dir.is_dir() {
            let message = format!("`runners.plugins`: `{}` is not a directory", dir.display());
            return Err(CliError::new(FailureCode::Usage, message).into());
        }
        runners = runners.with(PluginFactory::new(plugins(config, dir)?));
    } else {
        runners = runners.unconfigured(
            "plugin",
            "set the directory of the libraries in `runners.plugins`, and allow it with `--allow-runner plugin`",
        );
    }
    Ok(Arc::new(config.runners.allowed().iter().fold(runners, Runners::allow)))
}

/// Keeps programs that jobs start from reading the environment and the memory of this process below `/proc`: the kernel
/// shows those of a process that is not dumpable only to root. It also writes no core dump then.
fn hide_from_programs() {
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "programs can read the environment of this process");
    }
}

/// Builds runners that only validate the settings of handlers, for a server that runs none itself. All are allowed
/// and uncapped: the hosts enforce their own restrictions.
pub(crate) fn validators(outbound: Outbound) -> Arc<Runners> {
    let network = NetworkAccess::new(outbound, Urls::default());
    let options = Options {
        shell: true,
        container_network: true,
        max_output: Size(u64::MAX),
        max_grace: Span::MAX,
        secrets: ["*".parse::<Pattern>()].into_iter().flatten().collect(),
        code_variables: ["*".parse::<Pattern>()].into_iter().flatten().collect(),
        ..Options::default()
    };
    let runners = Runners::new()
        .with(CommandFactory::new(options.clone()))
        .with(DockerFactory::new(options))
        .with(PluginFactory::new(plugin::PluginSetup::new("/", "/", &[])))
        .with(HttpFactory::new(network.clone()))
        .with(GrpcFactory::new(network.clone()))
        .with(SlackFactory::new(network));
    Arc::new(["command", "docker", "plugin"].into_iter().fold(runners, Runners::allow))
}

fn plugins(config: &Config, dir: &Path) -> anyhow::Result<plugin::PluginSetup> {
    let options = config.runners.options.clone();
    let itself = std::env::current_exe().context("cannot determine the path of this program")?;
    let Variables(variables) = &options.plugin_env;
    let env = variables.iter().filter_map(|(name, value)| {
        let value = value.clone().or_else(|| environment::read(name))?;
        Some((name.clone(), value))
    });
    Ok(plugin::PluginSetup {
        env: env.collect(),
        options,
        ..plugin::PluginSetup::new(dir, itself, &[PLUGIN_HOST])
    })
}

/// The runner options, with a default for the state directory.
fn options(config: &Config, data: Option<&Path>) -> Options {
    let chosen = &config.runners.options;
    let state = chosen.state.clone().unwrap_or_else(|| default_state_dir(data));
    Options { state: Some(state), ..chosen.clone() }
}

/// Default state directory of a host: in the data directory, or else a directory per user below the temporary
/// directory.
fn default_state_dir(data: Option<&Path>) -> PathBuf {
    let temporary = || {
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("crore-hosts-{user}"))
    };
    data.map_or_else(temporary, |data| data.join("hosts"))
}

/// Channels of a host: the queues that it serves, with the concurrency of each.
pub(crate) type ChannelConcurrency = BTreeMap<Name, u32>;

/// Creates a host that serves these channels with these runners.
pub(crate) fn host(
    transport: impl Into<WorkerTransport>,
    runners: Arc<Runners>,
    config: &Config,
    channels: ChannelConcurrency,
) -> Host {
    let host = Host::new(transport, runners).stop_within(config.listen.drain_for.into());
    channels.into_iter().fold(host, |host, (queue, parallel)| host.channel(queue, parallel))
}

/// Logs the served channels and the allowed runners.
pub(crate) fn log_channels(channels: &ChannelConcurrency, config: &Config) {
    let shown: Vec<_> = channels.iter().map(|(queue, n)| format!("{queue}={n}")).collect();
    let allowed_runners = match config.runners.allowed() {
        [] => "none".to_owned(),
        names => names.join(" "),
    };
    tracing::info!(channels = shown.join(" "), allowed_runners, "running handlers");
}

/// Runs handlers in the server's process until its doors close.
pub(crate) async fn run_in_server(doors: Doors, runners: Arc<Runners>, config: &Config) {
    let server = doors.clone();
    let channels = config.runners.channels();
    log_channels(&channels, config);
    let host = host(
        WorkerTransport::in_process(move || server.local_session()),
        runners,
        config,
        channels,
    );
    let name = orphaned_jobs::host_name(doors.engine());
    if let Err(error) = host.name(name).run(doors.closing()).await {
        tracing::error!(%error, "handlers stopped");
    }
}

#[cfg(test)]
mod tests;
