//! The built server as a process.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use crore_testkit::eventually;

use crate::clock::JumpingClock;
use crate::time::CALL_TIMEOUT;

/// How to start a server.
#[derive(Debug, Clone)]
pub(crate) struct ServerLaunch {
    pub(crate) program: PathBuf,
    pub(crate) data: PathBuf,
    /// The file that receives its standard error.
    pub(crate) log: PathBuf,
    /// Keys of its configuration, as `KEY=VALUE`.
    pub(crate) set: Vec<String>,
    /// The planted bug to enable.
    pub(crate) bug: Option<String>,
}

impl ServerLaunch {
    /// Starts a server without waiting for it. The kernel kills it when this process ends.
    pub(crate) fn spawn(&self, clock: Option<&JumpingClock>) -> Result<Child, String> {
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
        child.map_err(|error| format!("the server cannot be started: {error}"))
    }
}

/// A running server; it is killed on drop and when this process ends.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Kept open: a write to a closed pipe could end the server.
    _stdout: Option<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server and waits until it listens. The error contains its log.
    pub(crate) fn start(
        launch: &ServerLaunch,
        clock: Option<&JumpingClock>,
    ) -> Result<Self, String> {
        let before = fs::metadata(&launch.log).map_or(0, |log| log.len());
        let mut child = launch.spawn(clock)?;
        let stdout = child.stdout.take().ok_or("the server has no standard output")?;
        let (address, stdout) = read_address(stdout);
        match address {
            Some(address) => Ok(Self { child, address, _stdout: stdout }),
            None => {
                // It may have exited already.
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("the server did not start:\n{}", log_since(&launch.log, before)))
            }
        }
    }

    /// Kills it with SIGKILL and waits for its exit.
    pub(crate) fn kill(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, given by name.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("`kill -s {name} {pid}`: {other:?}")),
        }
    }

    /// Waits until it has exited.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        eventually(CALL_TIMEOUT, || self.child.try_wait().ok().flatten())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads the listening address from the first line of output, within the timeout.
fn read_address(stdout: ChildStdout) -> (Option<SocketAddr>, Option<ChildStdout>) {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        let address = line.trim().rsplit("http://").next().and_then(|address| address.parse().ok());
        // If the receiver timed out, it has killed the server too.
        let _ = sender.send((read.ok().and(address), stdout.into_inner()));
    });
    receiver
        .recv_timeout(CALL_TIMEOUT)
        .map_or((None, None), |(address, stdout)| (address, Some(stdout)))
}

/// The server's log from this offset on.
fn log_since(log: &Path, since: u64) -> String {
    let all = fs::read(log).unwrap_or_default();
    let since = usize::try_from(since).unwrap_or(0);
    String::from_utf8_lossy(all.get(since..).unwrap_or_default()).into_owned()
}
