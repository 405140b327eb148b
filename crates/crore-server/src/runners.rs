//! What jobs are run with: the runners that the configuration allows, and their host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use crore_client::Way;
use crore_core::settings::Reference;
use crore_core::{Name, Size, Span};
use crore_doors::Doors;
use crore_outbound::{self as outbound, Outbound};
use crore_runner::command::Command;
use crore_runner::docker::Docker;
use crore_runner::plugin::{self, Plugins};
use crore_runner::{
    Grpc, Host, Http, Options, Pattern, Reach, Runners, Secret, Slack, Urls, Variables,
};

use crate::config::Config;
use crate::environment;
use crate::exit::{Failure, Why};

/// The command that a child process with a plugin is.
pub(crate) const PLUGIN_HOST: &str = "plugin-host";

/// All runners, as the configuration has them, for a process that may call so and keeps its data there.
pub(crate) fn all(
    config: &Config,
    outbound: outbound::Options,
    data: Option<&Path>,
) -> anyhow::Result<Arc<Runners>> {
    let options = options(config, data);
    let reach = Reach::new(Outbound::new(outbound), options.urls.clone());
    let named = config.jobworkerp.slack_token.as_ref().map(Reference::as_str);
    let named = named.map(str::parse::<Pattern>).transpose()?;
    Secret::allow_only(options.secrets.clone().and(named));
    let mut runners = Runners::new()
        .with(Command::new(options.clone()))
        .with(Docker::new(options.clone()))
        .with(Http::new(reach.clone()))
        .with(Grpc::new(reach.clone()))
        .with(Slack::new(reach));
    if let Some(dir) = &options.plugins {
        if !dir.is_dir() {
            let message = format!("`runners.plugins`: `{}` is no directory", dir.display());
            return Err(Failure::new(Why::Usage, message).into());
        }
        runners = runners.with(Plugins::new(plugins(config, dir)?));
    }
    Ok(Arc::new(config.runners.allowed().iter().fold(runners, Runners::allow)))
}

/// What is known of runners by a server that runs none: their names and settings. What is allowed is for the hosts
/// to say that run them.
pub(crate) fn elsewhere(outbound: outbound::Options) -> Arc<Runners> {
    let reach = Reach::new(Outbound::new(outbound), Urls::default());
    let options = Options {
        shell: true,
        container_network: true,
        max_output: Size(u64::MAX),
        max_grace: Span::MAX,
        ..Options::default()
    };
    let runners = Runners::new()
        .with(Command::new(options.clone()))
        .with(Docker::new(options))
        .with(Plugins::new(plugin::Setup::new("/", "/", &[])))
        .with(Http::new(reach.clone()))
        .with(Grpc::new(reach.clone()))
        .with(Slack::new(reach));
    Arc::new(["command", "docker", "plugin"].into_iter().fold(runners, Runners::allow))
}

fn plugins(config: &Config, dir: &Path) -> anyhow::Result<plugin::Setup> {
    let options = config.runners.options.clone();
    let itself = std::env::current_exe().context("cannot tell where this program is")?;
    let Variables(variables) = &options.plugin_env;
    let env = variables.iter().filter_map(|(name, value)| {
        let value = value.clone().or_else(|| environment::read(name))?;
        Some((name.clone(), value))
    });
    Ok(plugin::Setup {
        env: env.collect(),
        options,
        ..plugin::Setup::new(dir, itself, &[PLUGIN_HOST])
    })
}

/// What the operator says, for a process that keeps its data there.
fn options(config: &Config, data: Option<&Path>) -> Options {
    let chosen = &config.runners.options;
    let state = chosen.state.clone().unwrap_or_else(|| state(data));
    Options { state: Some(state), ..chosen.clone() }
}

/// Where a host notes that it lives, if nobody says so: with its data, or else among the temporary files, in a
/// directory of the user's.
fn state(data: Option<&Path>) -> PathBuf {
    let usual = || {
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("crore-hosts-{user}"))
    };
    data.map_or_else(usual, |data| data.join("hosts"))
}

/// The queues whose jobs are run, and how many of each at a time.
pub(crate) type Channels = BTreeMap<Name, u32>;

/// A host of these runners for these channels.
pub(crate) fn host(
    way: impl Into<Way>,
    runners: Arc<Runners>,
    config: &Config,
    channels: Channels,
) -> Host {
    let host = Host::new(way, runners).stop_within(config.listen.drain_for.into());
    channels.into_iter().fold(host, |host, (queue, parallel)| host.channel(queue, parallel))
}

/// Says in the log which channels are served here, and which runners that reach the machine may be used.
pub(crate) fn tell(channels: &Channels, config: &Config) {
    let shown: Vec<_> = channels.iter().map(|(queue, n)| format!("{queue}={n}")).collect();
    let allowed_runners = match config.runners.allowed() {
        [] => "none".to_owned(),
        names => names.join(" "),
    };
    tracing::info!(channels = shown.join(" "), allowed_runners, "running jobs that have a handler");
}

/// Runs jobs in the server's own process until its doors are closing.
pub(crate) async fn within(doors: Doors, runners: Arc<Runners>, config: &Config) {
    let server = doors.clone();
    let channels = config.runners.channels();
    tell(&channels, config);
    let host = host(Way::straight(move || server.work()), runners, config, channels);
    if let Err(error) = host.name("crore").run(doors.closing()).await {
        tracing::error!(%error, "the runners have ended");
    }
}

#[cfg(test)]
mod tests;
