//! One Redis server, alone or as a node of a cluster.

use super::package::DebianPackage;
use super::port::ExtraPorts;
use super::process::{ServerSpec, StopSignal, SupervisedServer};
use super::{ServerDurability, command, run_client};
use crate::Error;

const SCRIPT: &str = r#"
port=$1 redis=$2
shift 2
exec "$redis" --port "$port" --bind 127.0.0.1 --dir "$PWD" --save '' --daemonize no "$@"
"#;
const FAST: [&str; 2] = ["--appendonly", "no"];
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const CLUSTER: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];

/// Whether a server is part of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedisRole {
    Alone,
    Node,
}

/// A Redis server without a password.
#[derive(Debug)]
pub struct RedisServer {
    process: SupervisedServer,
}

impl RedisServer {
    /// Starts one that keeps everything in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if it is not installed (a panic with `CI=true`), [`Error::Failed`] if it does not
    /// start.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(ServerDurability::Fast)
    }

    /// Starts one with the given durability.
    ///
    /// # Errors
    ///
    /// As for [`RedisServer::start`].
    pub fn start_with(durability: ServerDurability) -> Result<Self, Error> {
        Self::start_as(RedisRole::Alone, durability)
    }

    pub(super) fn start_as(role: RedisRole, durability: ServerDurability) -> Result<Self, Error> {
        DebianPackage::Redis.require()?;
        let program = DebianPackage::Redis.require_program("redis-server")?;
        let options: &[&str] = if durability == ServerDurability::Fast { &FAST } else { &DURABLE };
        let cluster: &[&str] = if role == RedisRole::Node { &CLUSTER } else { &[] };
        let options = options.iter().chain(cluster).map(ToString::to_string);
        let launch = ServerSpec {
            name: "redis",
            script: SCRIPT,
            args: [program.display().to_string()].into_iter().chain(options).collect(),
            stop: StopSignal::Kill,
            bus: if role == RedisRole::Node { ExtraPorts::Redis } else { ExtraPorts::None },
            below: None,
            socket: None,
        };
        Ok(Self { process: SupervisedServer::start(&launch, probe)? })
    }

    /// The connection URL: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.process.port())
    }

    /// Runs one command through `redis-cli` and returns its raw reply, one element per line.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with the error output of `redis-cli`.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        cli(&self.process, words).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &SupervisedServer {
        &self.process
    }
}

/// `-e` turns an error reply into a failure, so that `LOADING` is not mistaken for a reply.
pub(super) fn cli(process: &SupervisedServer, words: &[&str]) -> Result<String, String> {
    let client =
        DebianPackage::Redis.require_program("redis-cli").map_err(|error| error.to_string())?;
    let port = process.port().to_string();
    run_client(command(client).args(["-h", "127.0.0.1", "-p", &port, "-e", "--raw"]).args(words))
}

fn probe(process: &SupervisedServer) -> Result<(), String> {
    let info = cli(process, &["INFO", "server"])?;
    let answered = info.lines().find_map(|line| line.trim().strip_prefix("process_id:"));
    if answered == Some(&process.pid().to_string()) {
        Ok(())
    } else {
        Err(format!("process {answered:?} answers on its port"))
    }
}
