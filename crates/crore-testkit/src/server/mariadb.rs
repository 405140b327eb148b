//! MariaDB, which also stands for MySQL.

use super::package::Package;
use super::port::Bus;
use super::process::{Launch, Process, Stop};
use super::{Durability, ask, command};
use crate::Error;

const SCRIPT: &str = r#"
port=$1 install=$2 mariadbd=$3
shift 3
export TMPDIR="$PWD"
"$install" --no-defaults --auth-root-authentication-method=normal --skip-name-resolve \
    --datadir="$PWD/data" &&
exec "$mariadbd" --no-defaults --datadir="$PWD/data" --port="$port" --bind-address=127.0.0.1 \
    --socket=socket --pid-file=pid --skip-name-resolve --max-connections=200 \
    --character-set-server=utf8mb4 "$@"
"#;
const FAST: [&str; 3] = [
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
];

/// A MariaDB server with 200 connections, the user `root` without a password, and the empty
/// database `test`.
#[derive(Debug)]
pub struct MariaDb {
    process: Process,
}

impl MariaDb {
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
    /// As for [`MariaDb::start`].
    pub fn start_with(durability: Durability) -> Result<Self, Error> {
        let package = Package::MariaDb;
        package.require()?;
        let programs = [package.need("mariadb-install-db")?, package.need("mariadbd")?];
        let options: &[&str] = if durability == Durability::Fast { &FAST } else { &[] };
        let programs = programs.iter().map(|path| path.display().to_string());
        let launch = Launch {
            name: "mariadb",
            script: SCRIPT,
            args: programs.chain(options.iter().map(ToString::to_string)).collect(),
            stop: Stop::Kill,
            bus: Bus::None,
            below: None,
            socket: None,
        };
        Ok(Self { process: Process::start(&launch, probe)? })
    }

    /// The connection URL: `mysql://root@127.0.0.1:PORT/test`.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/test", self.process.port())
    }

    /// Runs statements through `mariadb` and gives the rows, one per line, columns joined with
    /// tabs.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with what `mariadb` said.
    pub fn query(&self, sql: &str) -> Result<String, Error> {
        query(&self.process, sql).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn query(process: &Process, sql: &str) -> Result<String, String> {
    let client = Package::MariaDb.need("mariadb").map_err(|error| error.to_string())?;
    let mut client = command(client);
    client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root", "-N", "-B"]);
    client.arg(format!("--port={}", process.port()));
    ask(client.args(["--connect-timeout=5", "--database=test", "-e", sql]))
}

fn probe(process: &Process) -> Result<(), String> {
    let answered = query(process, "SELECT @@datadir")?;
    let ours = format!("{}/", process.dir().join("data").display());
    if answered == ours { Ok(()) } else { Err(format!("`{answered}` answers on its port")) }
}
