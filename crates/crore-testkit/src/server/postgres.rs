//! PostgreSQL.

use super::package::Package;
use super::port::Bus;
use super::process::{Launch, Process, Stop};
use super::{Durability, ask, command};
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
pub struct Postgres {
    process: Process,
}

impl Postgres {
    /// Starts one that syncs nothing.
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
    /// As for [`Postgres::start`].
    pub fn start_with(durability: Durability) -> Result<Self, Error> {
        Package::Postgres.require()?;
        let programs = [Package::Postgres.need("initdb")?, Package::Postgres.need("postgres")?];
        let options: &[&str] = if durability == Durability::Fast { &FAST } else { &[] };
        let programs = programs.iter().map(|path| path.display().to_string());
        let launch = Launch {
            name: "postgres",
            script: SCRIPT,
            args: programs.chain(options.iter().map(ToString::to_string)).collect(),
            stop: Stop::Quit,
            bus: Bus::None,
            below: None,
            socket: None,
        };
        Ok(Self { process: Process::start(&launch, probe)? })
    }

    /// The connection URL: `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        url(&self.process)
    }

    /// Runs statements through `psql` and gives the rows, one per line, columns joined with `|`.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with what `psql` said.
    pub fn query(&self, sql: &str) -> Result<String, Error> {
        query(&self.process, sql).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn url(process: &Process) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", process.port())
}

fn query(process: &Process, sql: &str) -> Result<String, String> {
    let psql = Package::Postgres.need("psql").map_err(|error| error.to_string())?;
    let mut psql = command(psql);
    psql.env("PGCONNECT_TIMEOUT", "5").args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
    ask(psql.args(["-d", &url(process), "-c", sql]))
}

fn probe(process: &Process) -> Result<(), String> {
    let answered = query(process, "SHOW data_directory")?;
    let ours = process.dir().join("data").display().to_string();
    if answered == ours { Ok(()) } else { Err(format!("`{answered}` answers on its port")) }
}
