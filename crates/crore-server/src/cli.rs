//! Command-line arguments. The modules of `commands` implement them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::{
    audit, bench, error, event, group, handler, job, limit, queue, schedule, stats, token, top,
};
use crate::config::secret::ConfigSecret;
use crate::config::{Flags, SettingValue};
use crate::environment;
use crate::output::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  crore serve                                 start the server; jobs are stored in ./crore-data
  crore dev                                   start a temporary server with sample jobs
  crore job push mail '{\"to\": \"ada\"}'         push a job
  crore job ls --state dead                   list dead jobs
  crore job retry --state dead --queue mail   retry them

Exit codes: 0 success, 1 failure, 2 usage error, 3 not found, 4 conflict,
5 server unreachable.";

const WORKER_EXAMPLES: &str = "\
Examples:
  crore worker --allow-runner command --channel gpu=1    run jobs of queue gpu, one at a time
  crore worker ls                                        list the workers of the server

SIGTERM or Ctrl-C: finish running jobs, then exit. A second signal exits immediately.";

/// Durable job queue in one binary: programs push jobs, workers fetch and run them
#[derive(Debug, Parser)]
#[command(name = "crore", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, infer_subcommands = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start the server
    #[command(
        after_help = "SIGTERM or Ctrl-C: let workers finish, then exit. A second signal exits immediately."
    )]
    Serve(ServeArgs),
    /// Start a temporary server with sample jobs, to try crore out
    Dev {
        /// Listen address; port 0 picks a free port
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
        listen: String,
    },
    /// Check, show or document the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Push, inspect and change jobs
    Job {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: job::JobCommand,
    },
    /// Manage groups: sets of jobs that other jobs can wait for
    Group {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: group::GroupCommand,
    },
    /// Show groups of errors of failed jobs
    Error {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: error::ErrorCommand,
    },
    /// Send events that jobs wait for, and manage kept events
    Event {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: event::EventCommand,
    },
    /// Inspect and pause queues, and set their retention
    Queue {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: queue::QueueCommand,
    },
    /// Manage recurring jobs
    Schedule {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: schedule::ScheduleCommand,
    },
    /// Manage rate and concurrency limits
    Limit {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: limit::LimitCommand,
    },
    /// Manage access tokens
    Token {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: token::TokenCommand,
    },
    /// Manage handlers, which define how crore itself runs the jobs of a kind
    Handler {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(subcommand)]
        command: handler::HandlerCommand,
    },
    /// Run a server's handlers on this machine, or list and control the server's workers
    #[command(after_help = WORKER_EXAMPLES)]
    Worker {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(flatten)]
        hosting: Box<WorkerArgs>,
        #[command(subcommand)]
        command: Option<WorkerCommand>,
    },
    /// Show counts, wait times and run times of jobs, over time or by queue and kind
    #[command(
        after_help = "Examples:\n  crore stats --queue mail --since 1h      by minute\n  crore stats --by queue --since 7d        one row per queue"
    )]
    Stats {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(flatten)]
        what: stats::StatsArgs,
    },
    /// Watch queues, jobs and workers live in the terminal, and act on them
    #[command(
        after_help = "Keys: 1 to 4 choose a page, Enter opens, / filters jobs, ? lists all keys, q quits."
    )]
    Top {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(flatten)]
        what: top::TopArgs,
    },
    /// Show the server's version, protocols and durability
    Info {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Show the size of the server's store, the free space and the last backup
    Storage {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Show the newest entries of the server's audit log
    Audit {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(flatten)]
        what: audit::AuditArgs,
    },
    /// Measure throughput, latency and resource usage of a server
    Bench(Box<bench::LoadArgs>),
    /// Back up the store of a running server, or an offline data directory
    #[command(
        after_help = "Examples:\n  crore backup --name nightly-1        the running server writes to its store.backups directory\n  crore backup crore-data copy         copies an offline data directory: no server may have it open"
    )]
    Backup {
        #[command(flatten)]
        remote: RemoteArgs,
        /// Name of a backup that the running server writes to its `store.backups` directory
        #[arg(long, conflicts_with_all = ["data", "to"])]
        name: Option<String>,
        /// Data directory to copy; no server may have it open
        #[arg(required_unless_present = "name")]
        data: Option<PathBuf>,
        /// Target directory; must be empty, created if missing
        #[arg(required_unless_present = "name")]
        to: Option<PathBuf>,
    },
    /// Check a store for damage, without changing it
    Verify {
        /// Data directory; no server may have it open
        #[arg(default_value = "crore-data")]
        data: PathBuf,
        /// Output format
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Repair a damaged store and report what is lost
    Repair {
        /// Data directory; no server may have it open. Make a copy of it first
        #[arg(default_value = "crore-data")]
        data: PathBuf,
        /// Output format
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Host a plugin in a child process
    #[command(name = crate::runners::PLUGIN_HOST, hide = true)]
    PluginHost {
        /// Plugin library
        library: PathBuf,
    },
    /// Print a shell completion script
    #[command(after_help = "For bash: crore completions bash > /etc/bash_completion.d/crore")]
    Completions {
        /// Shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report every error in the configuration
    Check {
        #[command(flatten)]
        settings: ServeArgs,
        /// Output format
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Print the effective configuration and the source of each value
    Show {
        #[command(flatten)]
        settings: ServeArgs,
        /// Output format
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Print the reference of all keys, in Markdown
    Reference,
    /// Print the JSON Schema of crore.toml, for editors
    Schema,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers
    Ls,
    /// Send no more jobs to a connected worker; its running jobs continue
    Quiet {
        /// Name or incarnation of the worker
        worker: String,
    },
    /// Send jobs to a quiet worker again
    Resume {
        /// Name or incarnation of the worker
        worker: String,
    },
    /// Ask a connected worker to finish its jobs and exit
    Stop {
        /// Name or incarnation of the worker
        worker: String,
    },
}

/// Flags of a server; each sets a configuration key.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file in TOML [default: crore.toml in the current directory, if it exists]
    #[arg(long, value_name = "FILE", env = environment::CONFIG)]
    pub(crate) config: Option<PathBuf>,
    /// Listen address [default: 127.0.0.1:9000]; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Data directory [default: crore-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Store jobs in memory only; they are lost when crore stops
    #[arg(long, conflicts_with = "data")]
    memory: bool,
    /// Extra listener for clients of another job queue: jobber=3000, lakh=50051, lightjq=6400; may be repeated
    #[arg(long, value_name = "NAME=PORT", value_parser = pair)]
    door: Vec<(String, String)>,
    #[command(flatten)]
    runners: RunnerArgs,
    /// Do not run handlers in this process
    #[arg(long)]
    no_runners: bool,
    /// Read jobworkerp's environment variables and .env file, and log the crore setting for each
    #[arg(long)]
    pub(crate) jobworkerp_env: bool,
    /// Time for workers to finish their jobs on shutdown [default: 25s]
    #[arg(long, value_name = "DURATION")]
    drain_for: Option<String>,
    /// Allow non-local listen addresses without an access token: anyone who can connect has full access
    /// until a token exists
    #[arg(long)]
    insecure: bool,
    /// Log level: error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Log format: text, json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Directory for log files, instead of standard error
    #[arg(long, value_name = "DIR")]
    log_dir: Option<String>,
    /// Any other configuration key, such as caps.payload=4MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// Flags about runners, shared by `serve` and `worker`.
#[derive(Debug, Clone, Default, Args)]
struct RunnerArgs {
    /// Allow a runner that has access to this machine: command, docker, plugin; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_runner: Vec<String>,
    /// Queue whose jobs this process runs with handlers, at most N at a time, such as gpu=1; may be repeated
    /// [default: the queue `default`, one job per CPU]
    #[arg(long, value_name = "QUEUE=N", value_parser = pair)]
    channel: Vec<(String, String)>,
}

impl RunnerArgs {
    fn add_to(&self, flags: &mut Flags) {
        if !self.allow_runner.is_empty() {
            let allow = SettingValue::Many(self.allow_runner.clone());
            flags.push(("runners.allow".to_owned(), allow, "--allow-runner"));
        }
        for (queue, n) in &self.channel {
            flags.push((format!("channels.{queue}"), SettingValue::One(n.clone()), "--channel"));
        }
    }
}

/// Flags of `crore worker`; each sets a configuration key.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WorkerArgs {
    /// Configuration file in TOML [default: crore.toml in the current directory, if it exists]
    #[arg(long, value_name = "FILE", env = environment::CONFIG)]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    runners: RunnerArgs,
    /// Name of this worker [default: the host name of this machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Time for running jobs to finish on shutdown [default: 25s]
    #[arg(long, value_name = "DURATION")]
    drain_for: Option<String>,
    /// Log level: error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Any other configuration key, such as runners.programs=/usr/bin/*; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl WorkerArgs {
    /// The name under which its server lists it; empty if this machine has none.
    pub(crate) fn display_name(&self) -> String {
        let machine = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        self.name.clone().unwrap_or_else(|| machine().trim().to_owned())
    }

    /// The flags as configuration keys.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        for (key, value) in &self.set {
            flags.push((key.clone(), SettingValue::One(value.clone()), "--set"));
        }
        self.runners.add_to(&mut flags);
        let texts = [
            ("listen.drain-for", &self.drain_for, "--drain-for"),
            ("log.level", &self.log_level, "--log-level"),
        ];
        add_text_flags(&texts, &mut flags);
        flags
    }
}

/// Adds keys whose value is the flag's text.
fn add_text_flags(texts: &[(&str, &Option<String>, &'static str)], flags: &mut Flags) {
    for (key, text, flag) in texts {
        let given = (*text).clone().map(SettingValue::One);
        flags.extend(given.map(|given| ((*key).to_owned(), given, *flag)));
    }
}

/// Parses `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

impl ServeArgs {
    /// The flags as configuration keys.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        for (key, value) in &self.set {
            flags.push((key.clone(), SettingValue::One(value.clone()), "--set"));
        }
        for (name, port) in &self.door {
            flags.push((format!("doors.{name}"), SettingValue::One(port.clone()), "--door"));
        }
        if !self.listen.is_empty() {
            let address = SettingValue::Many(self.listen.clone());
            flags.push(("listen.address".to_owned(), address, "--listen"));
        }
        let texts = [
            ("store.data", &self.data, "--data"),
            ("listen.drain-for", &self.drain_for, "--drain-for"),
            ("log.level", &self.log_level, "--log-level"),
            ("log.format", &self.log_format, "--log-format"),
            ("log.dir", &self.log_dir, "--log-dir"),
        ];
        add_text_flags(&texts, &mut flags);
        self.runners.add_to(&mut flags);
        if self.no_runners {
            flags.push((
                "runners.run".to_owned(),
                SettingValue::One("false".to_owned()),
                "--no-runners",
            ));
        }
        let on = [
            ("store.memory", self.memory, "--memory"),
            ("listen.insecure", self.insecure, "--insecure"),
        ];
        for (key, is_on, flag) in on {
            if is_on {
                flags.push((key.to_owned(), SettingValue::One("true".to_owned()), flag));
            }
        }
        flags
    }
}

/// Flags of commands that call a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct RemoteArgs {
    /// Server URL
    #[arg(long, global = true, value_name = "URL", env = environment::SERVER)]
    #[arg(default_value = "http://127.0.0.1:9000", help_heading = "Server")]
    pub(crate) server: String,
    /// File with the access token; alternatively, set CRORE_TOKEN
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust for https, instead of the system's
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) ca: Option<PathBuf>,
    /// Output format
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    #[arg(display_order = 900)]
    pub(crate) output: OutputFormat,
}

impl RemoteArgs {
    /// The access token, from the file or the environment.
    pub(crate) fn token(&self) -> anyhow::Result<Option<ConfigSecret>> {
        match &self.token_file {
            Some(path) => Ok(Some(ConfigSecret::from_file(path)?)),
            None => Ok(environment::read(environment::TOKEN).map(ConfigSecret::new)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
