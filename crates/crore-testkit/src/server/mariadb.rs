//! MariaDB, which also represents MySQL.

use super::package::DebianPackage;
use super::port::ExtraPorts;
use super::process::{ServerSpec, StopSignal, SupervisedServer};
use super::{ServerDurability, command, run_client};
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
pub struct MariaDbServer {
    process: SupervisedServer,
}

impl MariaDbServer {
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
    /// As for [`MariaDbServer::start`].
    pub fn start_with(durability: ServerDurability) -> Result<Self, Error> {
        let package = DebianPackage::MariaDb;
        package.require()?;
        let programs =
            [package.require_program("mariadb-install-db")?, package.require_program("mariadbd")?];
        let options: &[&str] = if durability == ServerDurability::Fast { &FAST } else { &[] };
        let programs = programs.iter().map(|path| path.display().to_string());
        let launch = ServerSpec {
            name: "mariadb",
            script: SCRIPT,
            args: programs.chain(options.iter().map(ToString::to_string)).collect(),
            stop: StopSignal::Kill,
            bus: ExtraPorts::None,
            below: None,
            socket: None,
        };
        Ok(Self { process: SupervisedServer::start(&launch, probe)? })
    }

    /// The connection URL: `mysql://root@127.0.0.1:PORT/test`.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/test", self.process.port())
    }

    /// Runs statements through `mariadb` and returns the rows, one per line, columns joined with tabs.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with the error output of `mariadb`.
    pub fn query(&self, sql: &str) -> Result<String, Error> {
        query(&self.process, sql).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &SupervisedServer {
        &self.process
    }
}

fn query(process: &SupervisedServer, sql: &str) -> Result<String, String> {
    let client =
        DebianPackage::MariaDb.require_program("mariadb").map_err(|error| error.to_string())?;
    let mut client = command(client);
    client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root", "-N", "-B"]);
    client.arg(format!("--port={}", process.port()));
    run_client(client.args(["--connect-timeout=5", "--database=test", "-e", sql]))
}

fn probe(process: &SupervisedServer) -> Result<(), String> {
    let answered = query(process, "SELECT @@datadir")?;
    let ours = format!("{}/", process.dir().join("data").display());
    if answered == ours { Ok(()) } else { Err(format!("`{answered}` answers on its port")) }
}
