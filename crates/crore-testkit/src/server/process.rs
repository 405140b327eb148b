//! One server process under its supervisor.
//!
//! Destructors do not run in a killed process, nor for a static, so a server that only `Drop` stops is
//! eventually left behind. Here a shell, `supervisor.sh`, waits on a pipe whose other end only this process
//! holds. The kernel closes the pipe however the process ends; `drop` closes it too. Either way the shell
//! stops the server and removes its directory.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use super::command;
use super::package::DebianPackage;
use super::port::{self, ExtraPorts};
use crate::Error;
use crate::eventually::poll;

/// Long enough for a cold, busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PORT_TRIES: usize = 5;
/// Part of every server's message when another process took the port first.
const PORT_TAKEN: &str = "ddress already in use";
/// User and group `nobody`: PostgreSQL and MariaDB refuse to run as root.
const NOBODY: u32 = 65534;

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopSignal {
    /// At once: the server owns nothing outside its directory.
    Kill,
    /// PostgreSQL's immediate shutdown. A killed PostgreSQL leaves its shared memory segment behind, and the
    /// kernel has only a few thousand.
    Quit,
    /// Graceful stop, for a server that owns resources outside its directory. It is killed after five
    /// seconds.
    Term,
}

impl StopSignal {
    fn signal(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Quit => "QUIT",
            Self::Term => "TERM",
        }
    }
}

/// How to start a server: a shell script that runs in the server's directory with the port as `$1` and `args`
/// from `$2` on, and ends in `exec` of the server. It inherits nothing of our environment but `PATH`.
#[derive(Debug)]
pub struct ServerSpec<'a> {
    pub(super) name: &'a str,
    pub(super) script: &'a str,
    pub(super) args: Vec<String>,
    pub(super) stop: StopSignal,
    pub(super) bus: ExtraPorts,
    pub(super) below: Option<&'a Path>,
    /// A socket in its directory on which it listens, instead of the port.
    pub(super) socket: Option<&'static str>,
}

impl<'a> ServerSpec<'a> {
    /// A server that owns nothing outside its directory and may be killed.
    pub fn new(name: &'a str, script: &'a str) -> Self {
        let (args, stop, bus) = (Vec::new(), StopSignal::Kill, ExtraPorts::None);
        Self { name, script, args, stop, bus, below: None, socket: None }
    }

    /// Arguments of the script, from `$2` on.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Creates the server's directory in this one instead of the temporary directory, which may be in memory.
    /// The server then runs as the current user.
    #[must_use]
    pub fn below(mut self, dir: &'a Path) -> Self {
        self.below = Some(dir);
        self
    }
}

/// A running server. It is stopped and its directory removed when this is dropped or the process that holds
/// it ends in any way.
#[derive(Debug)]
pub struct SupervisedServer {
    name: String,
    pid: u32,
    port: u16,
    dir: PathBuf,
    supervisor: Child,
    /// Held open for the lifetime of the server.
    lifeline: Option<ChildStdin>,
}

impl SupervisedServer {
    /// The server's process id, for tests that kill or stop it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The port of 127.0.0.1 on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of all its files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the process is still running.
    pub fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| state != 'Z')
    }

    /// Starts a server and waits until `probe` finds it ready. The probe must verify that it talks to this
    /// process: if the port was taken in the meantime, another process may answer.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if it does not start.
    pub fn start(
        launch: &ServerSpec<'_>,
        probe: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<Self, Error> {
        let mut tries = 1;
        loop {
            let started = Self::spawn(launch)?;
            match started.wait_until_ready(launch, &probe) {
                Ok(()) => return Ok(started),
                Err(_) if tries < PORT_TRIES && started.log().contains(PORT_TAKEN) => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn spawn(launch: &ServerSpec<'_>) -> Result<Self, Error> {
        DebianPackage::UtilLinux.require()?;
        let port = port::free(launch.bus)?;
        let (dir, user) = private_dir(launch.name, launch.below)?;
        let mut supervisor = command("/bin/sh")
            .args(["-c", include_str!("supervisor.sh"), "crore-supervisor"])
            .arg(&dir)
            .arg(launch.stop.signal())
            .args(user)
            .args(["/bin/sh", "-c", launch.script, launch.name, &port.to_string()])
            .args(&launch.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::io(format_args!("{} did not start", launch.name), &error))?;
        let lifeline = supervisor.stdin.take();
        let pid = read_pid(&mut supervisor);
        let name = launch.name.to_owned();
        // From here on a failure drops the process, which stops the server.
        let mut process = Self { name, pid: 0, port, dir, supervisor, lifeline };
        process.pid = pid.ok_or_else(|| process.failed("its supervisor printed no process id"))?;
        Ok(process)
    }

    fn wait_until_ready(
        &self,
        launch: &ServerSpec<'_>,
        probe: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<(), Error> {
        let ready = poll(START_TIMEOUT, || {
            if !self.is_running() {
                return Ok(Err(self.failed("it ended")));
            }
            self.connect(launch.socket).map_err(|error| error.to_string())?;
            probe(self).map(Ok)
        });
        ready.unwrap_or_else(|seen| Err(self.failed(&format!("not ready in time: {seen}"))))
    }

    fn connect(&self, socket: Option<&str>) -> io::Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        match socket {
            Some(name) => UnixStream::connect(self.dir.join(name)).map(drop),
            None => TcpStream::connect_timeout(&address, Duration::from_secs(1)).map(drop),
        }
    }

    /// An error that ends with the server's last log lines.
    fn failed(&self, why: &str) -> Error {
        let log = self.log();
        let mut lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.reverse();
        Error::Failed(format!("{} did not start: {why}\n{}", self.name, lines.join("\n")))
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.dir.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for SupervisedServer {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // The supervisor's own timeout bounds this; no one is left to report a failure to.
        _ = self.supervisor.wait();
    }
}

/// A new directory accessible only to the server's user, and the `setpriv` options to become that user: the
/// current user, or `nobody` if that is root and the directory is a temporary one.
fn private_dir(name: &str, below: Option<&Path>) -> Result<(PathBuf, Vec<String>), Error> {
    let created = tempfile::Builder::new()
        .prefix(&format!("crore-{name}-"))
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(below.unwrap_or(&std::env::temp_dir()));
    let prepared = created.and_then(|dir| {
        let as_root = below.is_none() && fs::metadata(dir.path())?.uid() == 0;
        if as_root {
            chown(dir.path(), Some(NOBODY), Some(NOBODY))?;
        }
        Ok((as_root, fs::canonicalize(dir.path())?, dir))
    });
    let (as_root, path, dir) =
        prepared.map_err(|error| Error::io("cannot create the directory of a server", &error))?;
    // The supervisor removes it from now on.
    _ = dir.keep();
    let user = format!("--reuid={NOBODY} --regid={NOBODY} --clear-groups");
    let user = if as_root { user.split(' ').map(str::to_owned).collect() } else { Vec::new() };
    Ok((path, user))
}

fn read_pid(supervisor: &mut Child) -> Option<u32> {
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take()?).read_line(&mut line).ok()?;
    line.trim().parse().ok()
}
