//! PostgreSQL.

use super::package::DebianPackage;
use super::port::ExtraPorts;
use super::process::{ServerSpec, StopSignal, SupervisedServer};
use super::{ServerDurability, command, run_client};
use crate::Error;

const SCRIPT: &str = r#"
port=$1 initdb=$2 postgres=$3
shift 3
"$initdb" -D data -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions &&
exec "$postgres" -D data -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
    -c max_connections=200 "$@"
"#;
const FAST: [&str; 6] =
    ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"];

/// A PostgreSQL server with 200 connections, the superuser `postgres` without a password, and the
/// database `postgres` in UTF-8.
#[derive(Debug)]
pub struct PostgresServer {
    process: SupervisedServer,
}

impl PostgresServer {
    /// Starts one that syncs nothing.
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
    /// As for [`PostgresServer::start`].
    pub fn start_with(durability: ServerDurability) -> Result<Self, Error> {
        DebianPackage::Postgres.require()?;
        let programs = [
            DebianPackage::Postgres.require_program("initdb")?,
            DebianPackage::Postgres.require_program("postgres")?,
        ];
        let options: &[&str] = if durability == ServerDurability::Fast { &FAST } else { &[] };
        let programs = programs.iter().map(|path| path.display().to_string());
        let launch = ServerSpec {
            name: "postgres",
            script: SCRIPT,
            args: programs.chain(options.iter().map(ToString::to_string)).collect(),
            stop: StopSignal::Quit,
            bus: ExtraPorts::None,
            below: None,
            socket: None,
        };
        Ok(Self { process: SupervisedServer::start(&launch, probe)? })
    }

    /// The connection URL: `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        url(&self.process)
    }

    /// Runs statements through `psql` and returns the rows, one per line, columns joined with `|`.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with the error output of `psql`.
    pub fn query(&self, sql: &str) -> Result<String, Error> {
        query(&self.process, sql).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &SupervisedServer {
        &self.process
    }
}

fn url(process: &SupervisedServer) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", process.port())
}

fn query(process: &SupervisedServer, sql: &str) -> Result<String, String> {
    let psql =
        DebianPackage::Postgres.require_program("psql").map_err(|error| error.to_string())?;
    let mut psql = command(psql);
    psql.env("PGCONNECT_TIMEOUT", "5").args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
    run_client(psql.args(["-d", &url(process), "-c", sql]))
}

fn probe(process: &SupervisedServer) -> Result<(), String> {
    let answered = query(process, "SHOW data_directory")?;
    let ours = process.dir().join("data").display().to_string();
    if answered == ours { Ok(()) } else { Err(format!("`{answered}` answers on its port")) }
}
