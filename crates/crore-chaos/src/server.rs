//! The built server as a process.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use crore_testkit::eventually;

use crate::clock::Clock;
use crate::pause::LIMIT;

/// How servers are started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) data: PathBuf,
    /// Where everything that it writes about itself goes.
    pub(crate) log: PathBuf,
    /// Keys of its configuration, as `KEY=VALUE`.
    pub(crate) set: Vec<String>,
    /// The planted mistake that it makes, if it has any.
    pub(crate) bug: Option<String>,
}

impl Launch {
    /// Starts a server, and waits for nothing. The kernel ends it when we end, however that is.
    pub(crate) fn spawn(&self, clock: Option<&Clock>) -> Result<Child, String> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| format!("{}: {error}", self.log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data"]);
        command.arg(&self.data);
        for set in &self.set {
            command.args(["--set", set]);
        }
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
        if let Some(bug) = &self.bug {
            command.env("CRORE_BUG", bug);
        }
        if let Some(clock) = clock {
            command.envs(clock.environment());
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        child.map_err(|error| format!("the server is not started: {error}"))
    }
}

/// A running server; it is killed when this is dropped, and when we are.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Held open: who writes where nobody listens may be ended by that.
    _said: Option<ChildStdout>,
}

impl Server {
    /// Starts one, and waits until it listens. The error is what it said instead.
    pub(crate) fn start(launch: &Launch, clock: Option<&Clock>) -> Result<Self, String> {
        let before = fs::metadata(&launch.log).map_or(0, |log| log.len());
        let mut child = launch.spawn(clock)?;
        let said = child.stdout.take().ok_or("nobody listens to the server")?;
        let (told, said) = first_words(said);
        match told {
            Some(address) => Ok(Self { child, address, _said: said }),
            None => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("the server does not start:\n{}", written(&launch.log, before)))
            }
        }
    }

    /// Ends it, as nothing can keep it from.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal by its name.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("`kill -s {name} {pid}`: {other:?}")),
        }
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        eventually(LIMIT, || self.child.try_wait().ok().flatten())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where it says that it listens, if it does in time.
fn first_words(said: ChildStdout) -> (Option<SocketAddr>, Option<ChildStdout>) {
    let (tell, told) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut said = BufReader::new(said);
        let mut line = String::new();
        let read = said.read_line(&mut line);
        let address = line.trim().rsplit("http://").next().and_then(|address| address.parse().ok());
        // Whoever gave up waiting has ended the server too.
        let _ = tell.send((read.ok().and(address), said.into_inner()));
    });
    told.recv_timeout(LIMIT).map_or((None, None), |(address, said)| (address, Some(said)))
}

/// What the server wrote about itself since then.
fn written(log: &Path, since: u64) -> String {
    let all = fs::read(log).unwrap_or_default();
    let since = usize::try_from(since).unwrap_or(0);
    String::from_utf8_lossy(all.get(since..).unwrap_or_default()).into_owned()
}
