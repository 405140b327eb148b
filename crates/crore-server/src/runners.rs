//! What jobs are run with: the runners that the configuration allows, and their host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use crore_client::Way;
use crore_core::settings::Reference;
use crore_core::{Name, Span};
use crore_doors::Doors;
use crore_outbound::{self as outbound, Outbound};
use crore_runner::command::{self, Command};
use crore_runner::docker::{self, Docker};
use crore_runner::plugin::{self, Plugins};
use crore_runner::{Grpc, Host, Http, Pattern, Reach, Runners, Secret, Slack, Urls};

use crate::config::{Config, Count, Variables};
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
    let chosen = &config.runners;
    let reach = Reach::new(Outbound::new(outbound), chosen.urls.clone().unwrap_or_default());
    let named = config.jobworkerp.slack_token.as_ref().map(Reference::as_str);
    let named = named.map(str::parse::<Pattern>).transpose()?;
    Secret::allow_only(chosen.secrets.clone().and(named));
    let mut runners = Runners::new()
        .with(Command::new(commands(config)))
        .with(Docker::new(containers(config, data)))
        .with(Http::new(reach.clone()))
        .with(Grpc::new(reach.clone()))
        .with(Slack::new(reach));
    if let Some(dir) = &chosen.plugins {
        if !dir.is_dir() {
            let message = format!("`runners.plugins`: `{}` is no directory", dir.display());
            return Err(Failure::new(Why::Usage, message).into());
        }
        runners = runners.with(Plugins::new(plugins(config, dir)?));
    }
    Ok(Arc::new(chosen.allowed().iter().fold(runners, Runners::allow)))
}

/// What is known of runners by a server that runs none: their names and settings. What is allowed is for the hosts
/// to say that run them.
pub(crate) fn elsewhere(outbound: outbound::Options) -> Arc<Runners> {
    let reach = Reach::new(Outbound::new(outbound), Urls::default());
    let (max_output, max_grace) = (u64::MAX, Span::MAX);
    let command =
        command::Options { shell: true, max_output, max_grace, ..command::Options::default() };
    let docker =
        docker::Options { networks: true, max_output, max_grace, ..docker::Options::default() };
    let runners = Runners::new()
        .with(Command::new(command))
        .with(Docker::new(docker))
        .with(Plugins::new(plugin::Options::new("/", "/", &[])))
        .with(Http::new(reach.clone()))
        .with(Grpc::new(reach.clone()))
        .with(Slack::new(reach));
    Arc::new(["command", "docker", "plugin"].into_iter().fold(runners, Runners::allow))
}

fn commands(config: &Config) -> command::Options {
    let chosen = &config.runners;
    let count = |count: Count| u64::from(count.0);
    command::Options {
        programs: chosen.programs.clone().unwrap_or_default(),
        shell: chosen.shell,
        dirs: chosen.dirs.clone().unwrap_or_default(),
        max_output: chosen.max_output.0,
        max_grace: chosen.max_grace,
        limits: command::Limits {
            cpu_seconds: chosen.command_cpu_seconds.map(count),
            memory: chosen.command_memory,
            open_files: chosen.command_open_files.map(count),
            processes: chosen.command_processes.map(count),
            file_size: chosen.command_file_size,
        },
    }
}

fn plugins(config: &Config, dir: &Path) -> anyhow::Result<plugin::Options> {
    let chosen = &config.runners;
    let itself = std::env::current_exe().context("cannot tell where this program is")?;
    let variables = chosen.plugin_env.iter().flat_map(|Variables(all)| all);
    let env = variables.filter_map(|(name, value)| {
        let value = value.clone().or_else(|| environment::read(name))?;
        Some((name.clone(), value))
    });
    Ok(plugin::Options {
        env: env.collect(),
        start_timeout: chosen.plugin_start,
        grace: chosen.plugin_grace,
        memory: chosen.plugin_memory.map(|memory| memory.0),
        ..plugin::Options::new(dir, itself, &[PLUGIN_HOST])
    })
}

fn containers(config: &Config, data: Option<&Path>) -> docker::Options {
    let chosen = &config.runners;
    let usual = || docker::Options::default().address;
    docker::Options {
        address: chosen.docker.clone().unwrap_or_else(usual),
        images: chosen.images.clone().unwrap_or_default(),
        networks: chosen.container_network,
        limits: docker::Limits {
            memory: chosen.container_memory,
            cpus: chosen.container_cpus.map(|cpus| cpus.0),
            pids: chosen.container_pids.map(|pids| pids.0),
        },
        max_output: chosen.max_output.0,
        max_grace: chosen.max_grace,
        hosts: Some(chosen.state.clone().unwrap_or_else(|| state(data))),
    }
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
