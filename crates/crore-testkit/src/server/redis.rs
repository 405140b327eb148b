//! One Redis server, alone or as a node of a cluster.

use super::package::Package;
use super::port::Bus;
use super::process::{Launch, Process, Stop};
use super::{Durability, ask, command};
use crate::Error;

const SCRIPT: &str = r#"
port=$1 redis=$2
shift 2
exec "$redis" --port "$port" --bind 127.0.0.1 --dir "$PWD" --save '' --daemonize no "$@"
"#;
const FAST: [&str; 2] = ["--appendonly", "no"];
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const CLUSTER: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];

/// Whether a server is one of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Alone,
    Node,
}

/// A Redis server without a password.
#[derive(Debug)]
pub struct Redis {
    process: Process,
}

impl Redis {
    /// Starts one that keeps everything in memory only.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if it is not installed (a panic where `CI=true`), [`Error::Failed`] if it
    /// does not come up.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(Durability::Fast)
    }

    /// Starts one that keeps its word as `durability` says.
    ///
    /// # Errors
    ///
    /// As for [`Redis::start`].
    pub fn start_with(durability: Durability) -> Result<Self, Error> {
        Self::start_as(Role::Alone, durability)
    }

    pub(super) fn start_as(role: Role, durability: Durability) -> Result<Self, Error> {
        Package::Redis.require()?;
        let program = Package::Redis.need("redis-server")?;
        let options: &[&str] = if durability == Durability::Fast { &FAST } else { &DURABLE };
        let cluster: &[&str] = if role == Role::Node { &CLUSTER } else { &[] };
        let options = options.iter().chain(cluster).map(ToString::to_string);
        let launch = Launch {
            name: "redis",
            script: SCRIPT,
            args: [program.display().to_string()].into_iter().chain(options).collect(),
            stop: Stop::Kill,
            bus: if role == Role::Node { Bus::Redis } else { Bus::None },
            below: None,
            socket: None,
        };
        Ok(Self { process: Process::start(&launch, probe)? })
    }

    /// The connection URL: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.process.port())
    }

    /// Runs one command through `redis-cli` and gives its answer, bare, one element per line.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with what `redis-cli` said.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        cli(&self.process, words).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// `-e` makes an error answer a failure, so that `LOADING` is not taken for an answer.
pub(super) fn cli(process: &Process, words: &[&str]) -> Result<String, String> {
    let client = Package::Redis.need("redis-cli").map_err(|error| error.to_string())?;
    let port = process.port().to_string();
    ask(command(client).args(["-h", "127.0.0.1", "-p", &port, "-e", "--raw"]).args(words))
}

fn probe(process: &Process) -> Result<(), String> {
    let info = cli(process, &["INFO", "server"])?;
    let answered = info.lines().find_map(|line| line.trim().strip_prefix("process_id:"));
    if answered == Some(&process.pid().to_string()) {
        Ok(())
    } else {
        Err(format!("process {answered:?} answers on its port"))
    }
}
