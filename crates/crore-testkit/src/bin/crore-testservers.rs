//! Starts real servers, runs a command that finds them through the environment, stops them, and exits with
//! the command's exit code.
//!
//! However it ends, it leaves neither a server nor a directory behind: see `SupervisedServer` of the library.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::Display;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::thread::{self, ScopedJoinHandle};

use crore_testkit::{
    DebianPackage, Error, MariaDbServer, Npm, PostgresServer, Pypi, RedisCluster, RedisServer,
    install_missing,
};

const USAGE: &str = "\
usage: crore-testservers [--install] [--postgres] [--mariadb] [--redis] [--redis-cluster] [--xfs] [--faketime]
                         [--prometheus] [--sslscan] [--tmux] [--docker] [--pypi] [--npm] [--fonts] [-- CMD ARGS…]

  --install        first install missing packages (Debian, root)
  --postgres       start PostgreSQL, set CRORE_TEST_POSTGRES to its URL
  --mariadb        start MariaDB, set CRORE_TEST_MARIADB to its URL
  --redis          start Redis, set CRORE_TEST_REDIS to its URL
  --redis-cluster  start a Redis Cluster, set CRORE_TEST_REDIS_CLUSTER to its host:port,…
  --xfs            with --install: tools that cut the power of a file system
  --prometheus     with --install: Prometheus and promtool
  --sslscan        with --install: sslscan, a scanner for weak TLS settings
  --tmux           with --install: tmux, a terminal that a test can read
  --docker         with --install: the Docker engine
  --pypi           with --install: the PyPI packages that tests use
  --npm            with --install: Node, Chromium and the npm packages that tests use
  --fonts          with --install: a font with Japanese characters
  --faketime       with --install: libfaketime, which sets a server's clock

Exits with CMD's code, 128 + n if signal n ended it, 125 if it could not be run, 2 on a usage error.";
/// For screenshots of pages in Japanese.
const JAPANESE_FONT: DebianPackage = DebianPackage::Other {
    name: "fonts-noto-cjk",
    programs: &["/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"],
};
const USAGE_FAULT: u8 = 2;
const NOT_RUN: u8 = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WantedServer {
    Postgres,
    MariaDb,
    Redis,
    RedisCluster,
}

/// A started server, which stops when dropped, and its address for the environment variable.
type RunningServer = (Box<dyn Any + Send>, String);

impl WantedServer {
    fn from_flag(flag: &str) -> Option<Self> {
        match flag {
            "--postgres" => Some(Self::Postgres),
            "--mariadb" => Some(Self::MariaDb),
            "--redis" => Some(Self::Redis),
            "--redis-cluster" => Some(Self::RedisCluster),
            _ => None,
        }
    }

    fn package(self) -> DebianPackage {
        match self {
            Self::Postgres => DebianPackage::Postgres,
            Self::MariaDb => DebianPackage::MariaDb,
            Self::Redis | Self::RedisCluster => DebianPackage::Redis,
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "CRORE_TEST_POSTGRES",
            Self::MariaDb => "CRORE_TEST_MARIADB",
            Self::Redis => "CRORE_TEST_REDIS",
            Self::RedisCluster => "CRORE_TEST_REDIS_CLUSTER",
        }
    }

    fn start(self) -> Result<RunningServer, Error> {
        match self {
            Self::Postgres => running(PostgresServer::start()?, PostgresServer::url),
            Self::MariaDb => running(MariaDbServer::start()?, MariaDbServer::url),
            Self::Redis => running(RedisServer::start()?, RedisServer::url),
            Self::RedisCluster => {
                running(RedisCluster::start()?, |cluster| cluster.addresses().join(","))
            }
        }
    }
}

fn running<S: Send + 'static>(
    server: S,
    address: fn(&S) -> String,
) -> Result<RunningServer, Error> {
    let address = address(&server);
    Ok((Box::new(server), address))
}

#[derive(Debug, Default)]
struct ToolArgs {
    install: bool,
    /// Packages that are installed but not started.
    tools: Vec<DebianPackage>,
    /// Whether the PyPI packages are installed too.
    pypi: bool,
    /// Whether the npm packages are installed too.
    npm: bool,
    servers: Vec<WantedServer>,
    command: Vec<String>,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(fault) => return fail(USAGE_FAULT, format_args!("{fault}\n\n{USAGE}")),
    };
    match run(&asked) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(NOT_RUN, error),
    }
}

fn fail(code: u8, message: impl Display) -> ExitCode {
    eprintln!("crore-testservers: {message}");
    ExitCode::from(code)
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<ToolArgs, String> {
    let mut asked = ToolArgs::default();
    while let Some(word) = words.next() {
        match (word.as_str(), WantedServer::from_flag(&word)) {
            (_, Some(want)) => asked.servers.push(want),
            ("--install", _) => asked.install = true,
            ("--xfs", _) => asked.tools.push(DebianPackage::Xfs),
            ("--prometheus", _) => asked.tools.push(DebianPackage::Prometheus),
            ("--pypi", _) => asked.pypi = true,
            ("--npm", _) => {
                asked.npm = true;
                asked.tools.extend([
                    DebianPackage::Node,
                    DebianPackage::Npm,
                    DebianPackage::Chromium,
                ]);
            }
            ("--sslscan", _) => asked.tools.push(DebianPackage::Sslscan),
            ("--tmux", _) => asked.tools.push(DebianPackage::Tmux),
            ("--docker", _) => asked.tools.extend([DebianPackage::Docker, DebianPackage::Busybox]),
            ("--fonts", _) => asked.tools.push(JAPANESE_FONT),
            ("--faketime", _) => asked.tools.push(DebianPackage::FakeTime),
            ("--", _) => asked.command = words.by_ref().collect(),
            _ => return Err(format!("unknown option `{word}`; put the command after `--`")),
        }
    }
    asked.servers.sort_unstable();
    asked.servers.dedup();
    if asked.command.is_empty() && !asked.install {
        return Err("no command; put one after `--`".into());
    }
    Ok(asked)
}

fn run(asked: &ToolArgs) -> Result<u8, Error> {
    if asked.install {
        let mut packages: Vec<_> = asked.servers.iter().map(|want| want.package()).collect();
        packages.extend(&asked.tools);
        install_missing(&packages)?;
        if asked.pypi {
            Pypi::ALL.iter().try_for_each(|pypi| pypi.programs().map(drop))?;
        }
        if asked.npm {
            Npm::ALL.iter().try_for_each(|npm| npm.home().map(drop))?;
        }
    }
    match asked.command.split_first() {
        None => Ok(0),
        Some((program, args)) => {
            let servers = start_all(&asked.servers)?;
            run_command(Command::new("setpriv").args(PDEATHSIG).arg(program).args(args), &servers)
        }
    }
}

/// Concurrently, because each spends most of its start waiting.
fn start_all(wants: &[WantedServer]) -> Result<Vec<(WantedServer, RunningServer)>, Error> {
    thread::scope(|scope| {
        let starts: Vec<_> =
            wants.iter().map(|want| scope.spawn(|| (*want, want.start()))).collect();
        let ends = starts.into_iter().map(ScopedJoinHandle::join);
        ends.map(|end| {
            let (want, started) = end.map_err(|_| Error::Failed("a start panicked".into()))?;
            started.map(|server| (want, server))
        })
        .collect()
    })
}

/// The command ends with this process, even if only this process is killed. The signal is sent when the
/// thread that forked ends, which is the main thread.
const PDEATHSIG: [&str; 3] = ["--pdeathsig", "TERM", "--"];

fn run_command(
    command: &mut Command,
    servers: &[(WantedServer, RunningServer)],
) -> Result<u8, Error> {
    command.envs(servers.iter().map(|(want, (_, address))| (want.variable(), address)));
    let status = command
        .status()
        .map_err(|error| Error::Failed(format!("the command could not be run: {error}")))?;
    let signalled = || status.signal().map_or(i32::from(NOT_RUN), |signal| 128 + signal);
    Ok(u8::try_from(status.code().unwrap_or_else(signalled)).unwrap_or(NOT_RUN))
}
