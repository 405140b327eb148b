//! The command line: what can be said. What it does is in `commands`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::{bench, handler, job, limit, queue, schedule, token};
use crate::config::secret::Secret;
use crate::config::{Flags, Given};
use crate::environment;
use crate::out::Format;

const EXAMPLES: &str = "\
Examples:
  crore serve                                 start the server, with its jobs in ./crore-data
  crore dev                                   look around: sample jobs, gone when it ends
  crore job push mail '{\"to\": \"ada\"}'         push a job
  crore job ls --state dead                   look at what went wrong
  crore job retry --state dead --queue mail   and try it again

Exit codes: 0 all is well, 1 it failed, 2 it was not said right, 3 there is no such thing,
4 something is in the way, 5 the server cannot be reached.";

const WORKER_EXAMPLES: &str = "\
Examples:
  crore worker --allow-runner command --channel gpu=1    run jobs of the queue gpu here, one at a time
  crore worker ls                                        list the workers of the server

TERM or Ctrl-C lets jobs finish first; a second one leaves at once.";

/// A job queue in one binary: programs push jobs, workers fetch them, and none is lost.
#[derive(Debug, Parser)]
#[command(name = "crore", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, infer_subcommands = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(
        after_help = "TERM or Ctrl-C lets workers finish first; a second one leaves at once."
    )]
    Serve(Settings),
    /// Look around: a server with sample jobs flowing, in a temporary directory
    Dev {
        /// Where to listen; port 0 takes a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
        listen: String,
    },
    /// Check, show or describe the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Push, look at and change jobs
    Job {
        #[command(flatten)]
        remote: Remote,
        #[command(subcommand)]
        command: job::Command,
    },
    /// Look at queues, pause them, and say how long their jobs are kept
    Queue {
        #[command(flatten)]
        remote: Remote,
        #[command(subcommand)]
        command: queue::Command,
    },
    /// Let the clock push jobs
    Schedule {
        #[command(flatten)]
        remote: Remote,
        #[command(subcommand)]
        command: schedule::Command,
    },
    /// Hold a rate or a concurrency
    Limit {
        #[command(flatten)]
        remote: Remote,
        #[command(subcommand)]
        command: limit::Command,
    },
    /// Say who may call
    Token {
        #[command(flatten)]
        remote: Remote,
        #[command(subcommand)]
        command: token::Command,
    },
    /// Say how jobs of a kind are run by crore itself
    Handler {
        #[command(flatten)]
        remote: Remote,
        #[command(subcommand)]
        command: handler::Command,
    },
    /// Run jobs of a server that is elsewhere, as their handlers say; or look at workers
    #[command(after_help = WORKER_EXAMPLES)]
    Worker {
        #[command(flatten)]
        remote: Remote,
        #[command(flatten)]
        hosting: Box<Hosting>,
        #[command(subcommand)]
        command: Option<WorkerCommand>,
    },
    /// What happened in the last hours
    Stats {
        #[command(flatten)]
        remote: Remote,
        /// One row for every minute of the last hour, instead of one for every hour of the last day
        #[arg(long)]
        minutes: bool,
    },
    /// What the server is: its version, its doors, and what its answers survive
    Info {
        #[command(flatten)]
        remote: Remote,
    },
    /// Put load on a server, and say how much it takes, how fast, and at what cost
    Bench(Box<bench::Args>),
    /// Copy a store, whole and checked: that of a running server, or a directory
    #[command(
        after_help = "Examples:\n  crore backup --name nightly-1        a running server makes it, below its store.backups\n  crore backup crore-data copy         no server has crore-data open"
    )]
    Backup {
        #[command(flatten)]
        remote: Remote,
        /// Have the server make it, under this name, below the directory that its `store.backups` names
        #[arg(long, conflicts_with_all = ["data", "to"])]
        name: Option<String>,
        /// The directory of the store; no server may have it open
        #[arg(required_unless_present = "name")]
        data: Option<PathBuf>,
        /// The directory to copy it into; it is made if it is not there
        #[arg(required_unless_present = "name")]
        to: Option<PathBuf>,
    },
    /// Read everything in a store and say what is wrong; changes nothing
    Verify {
        /// The directory of the store; no server may have it open
        #[arg(default_value = "crore-data")]
        data: PathBuf,
    },
    /// Make a damaged store usable again, and say what is lost
    Repair {
        /// The directory of the store; no server may have it open. Copy it first
        #[arg(default_value = "crore-data")]
        data: PathBuf,
    },
    /// Be the child process of a plugin
    #[command(name = crate::runners::PLUGIN_HOST, hide = true)]
    PluginHost {
        /// The library
        library: PathBuf,
    },
    /// Print completions for a shell
    #[command(after_help = "For bash: crore completions bash > /etc/bash_completion.d/crore")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong, and change nothing
    Check(Settings),
    /// Print what is chosen, and where each value came from
    Show {
        #[command(flatten)]
        settings: Settings,
        /// How to print
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: Format,
    },
    /// Print what every key means, in Markdown
    Reference,
    /// Print a JSON Schema for editors
    Schema,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List the workers that are there
    Ls,
}

/// How a server is to run, as flags. Each is a key of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Settings {
    /// A TOML file; crore.toml in the current directory is read if it is there
    #[arg(long, value_name = "FILE", env = environment::CONFIG)]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:9000]; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Where jobs are kept [default: crore-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Keep jobs in memory: gone when crore stops
    #[arg(long, conflicts_with = "data")]
    memory: bool,
    /// An extra listener for programs of another queue: jobber=3000, lakh=50051, lightjq=6400
    #[arg(long, value_name = "NAME=PORT", value_parser = pair)]
    door: Vec<(String, String)>,
    #[command(flatten)]
    runners: RunnerFlags,
    /// Run no jobs: hosts elsewhere do
    #[arg(long)]
    no_runners: bool,
    /// Read the environment of jobworkerp, and its .env file in the current directory; each variable is told with our
    /// own name for it
    #[arg(long)]
    pub(crate) jobworkerp_env: bool,
    /// How long workers may still finish when crore is told to stop [default: 25s]
    #[arg(long, value_name = "SPAN")]
    drain_for: Option<String>,
    /// Listen beyond this machine without a token, although everybody there may then do everything
    #[arg(long)]
    insecure: bool,
    /// How much to write: error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How to write it: text, json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Write to files in this directory instead of to the standard error
    #[arg(long, value_name = "DIR")]
    log_dir: Option<String>,
    /// Any other key of the configuration, as caps.payload=4MiB
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// What jobs are run with.
#[derive(Debug, Clone, Default, Args)]
struct RunnerFlags {
    /// Allow a runner that reaches this machine: command, docker, plugin; may be given several times
    #[arg(long, value_name = "NAME")]
    allow_runner: Vec<String>,
    /// How many jobs of a queue run at a time here [default: default=the number of processors]; may be given several
    /// times
    #[arg(long, value_name = "QUEUE=N", value_parser = pair)]
    channel: Vec<(String, String)>,
}

impl RunnerFlags {
    fn put(&self, flags: &mut Flags) {
        if !self.allow_runner.is_empty() {
            let allow = Given::Many(self.allow_runner.clone());
            flags.push(("runners.allow".to_owned(), allow, "--allow-runner"));
        }
        for (queue, n) in &self.channel {
            flags.push((format!("channels.{queue}"), Given::One(n.clone()), "--channel"));
        }
    }
}

/// How a host of runners is to run, as flags. Each is a key of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Hosting {
    /// A TOML file; crore.toml in the current directory is read if it is there
    #[arg(long, value_name = "FILE", env = environment::CONFIG)]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    runners: RunnerFlags,
    /// What people call this host [default: a random name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// How long jobs may still run when it is told to stop [default: 25s]
    #[arg(long, value_name = "SPAN")]
    drain_for: Option<String>,
    /// How much to write: error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Any other key of the configuration, as runners.programs=/usr/bin/*
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl Hosting {
    /// What the flags say, as keys of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        for (key, value) in &self.set {
            flags.push((key.clone(), Given::One(value.clone()), "--set"));
        }
        self.runners.put(&mut flags);
        let texts = [
            ("listen.drain-for", &self.drain_for, "--drain-for"),
            ("log.level", &self.log_level, "--log-level"),
        ];
        put_texts(&texts, &mut flags);
        flags
    }
}

/// Keys that are given as they are.
fn put_texts(texts: &[(&str, &Option<String>, &'static str)], flags: &mut Flags) {
    for (key, text, flag) in texts {
        let given = (*text).clone().map(Given::One);
        flags.extend(given.map(|given| ((*key).to_owned(), given, *flag)));
    }
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

impl Settings {
    /// What the flags say, as keys of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        for (key, value) in &self.set {
            flags.push((key.clone(), Given::One(value.clone()), "--set"));
        }
        for (name, port) in &self.door {
            flags.push((format!("doors.{name}"), Given::One(port.clone()), "--door"));
        }
        if !self.listen.is_empty() {
            let address = Given::Many(self.listen.clone());
            flags.push(("listen.address".to_owned(), address, "--listen"));
        }
        let texts = [
            ("store.data", &self.data, "--data"),
            ("listen.drain-for", &self.drain_for, "--drain-for"),
            ("log.level", &self.log_level, "--log-level"),
            ("log.format", &self.log_format, "--log-format"),
            ("log.dir", &self.log_dir, "--log-dir"),
        ];
        put_texts(&texts, &mut flags);
        self.runners.put(&mut flags);
        if self.no_runners {
            flags.push(("runners.run".to_owned(), Given::One("false".to_owned()), "--no-runners"));
        }
        let on = [
            ("store.memory", self.memory, "--memory"),
            ("listen.insecure", self.insecure, "--insecure"),
        ];
        for (key, is_on, flag) in on {
            if is_on {
                flags.push((key.to_owned(), Given::One("true".to_owned()), flag));
            }
        }
        flags
    }
}

/// Which server to speak to, and how to print its answers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Remote {
    /// The server
    #[arg(long, global = true, value_name = "URL", env = environment::SERVER)]
    #[arg(default_value = "http://127.0.0.1:9000", help_heading = "Server")]
    pub(crate) server: String,
    /// A file with the token to show to the server; or set CRORE_TOKEN
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the certificates to trust by https, instead of those that the system trusts
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) ca: Option<PathBuf>,
    /// How to print
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    #[arg(display_order = 900)]
    pub(crate) output: Format,
}

impl Remote {
    /// The token to show: from the file, or the environment.
    pub(crate) fn token(&self) -> anyhow::Result<Option<Secret>> {
        match &self.token_file {
            Some(path) => Ok(Some(Secret::from_file(path)?)),
            None => Ok(environment::read(environment::TOKEN).map(Secret::new)),
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
