//! Temporary server: the same binary with default settings, on a free port and in a temporary directory. It is killed
//! when dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::environment;

/// Time for the server to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A temporary server.
#[derive(Debug)]
pub(super) struct TemporaryServer {
    child: Child,
    pub(super) url: String,
    dir: TempDir,
}

impl TemporaryServer {
    /// Starts a server with default settings; its directory is created in `below`.
    pub(super) fn start(below: Option<&Path>) -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("crore-bench-");
        let dir = match below {
            Some(below) => builder.tempdir_in(below).with_context(|| {
                format!("--data: cannot create a directory in `{}`", below.display())
            })?,
            None => builder.tempdir().context("cannot create a temporary directory")?,
        };
        let log = dir.path().join("log");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data"]);
        command.arg(dir.path().join("data"));
        for (name, _) in environment::all().filter(|(name, _)| name.starts_with("CRORE_")) {
            command.env_remove(name);
        }
        command.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&log)?);
        // Signals from the terminal are for this process only.
        command.process_group(0);
        let mut child = command.spawn().context("cannot start a temporary server")?;
        let lines = output_lines(&mut child);
        let mut own = Self { child, url: String::new(), dir };
        while let Ok(line) = lines.recv_timeout(START_TIMEOUT) {
            if let Some((_, url)) = line.split_once(" listens on ") {
                own.url = url.to_owned();
                return Ok(own);
            }
        }
        let wrote = fs::read_to_string(&log).unwrap_or_default();
        bail!("the temporary server did not start: {}", wrote.trim());
    }

    /// Type of the file system of its directory.
    pub(super) fn file_system(&self) -> Option<String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        file_system(&mounts, &self.dir.path().canonicalize().ok()?)
    }
}

impl Drop for TemporaryServer {
    fn drop(&mut self) {
        // Its data is temporary, so there is nothing to shut down gracefully.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards the lines of its standard output.
fn output_lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The receiver is dropped once the address is known.
                let _ = sender.send(line);
            }
        });
    }
    lines
}

/// Type of the innermost mount that contains a path, from `/proc/PID/mountinfo`: field 5 is the mount point, and the
/// first field after the dash is the type.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mount_point = head.split(' ').nth(4)?;
        path.starts_with(mount_point).then(|| (mount_point.len(), tail.split(' ').next()))
    });
    let (_, kind) = mounts.max_by_key(|(length, _)| *length)?;
    kind.map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_innermost_mount() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      22 21 0:20 / /tmp rw,nosuid shared:5 - tmpfs tmpfs rw\n\
                      23 21 0:21 / /tmpfoo rw - xfs /dev/sdb rw\n";
        let of = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!(of("/tmp/crore-bench-x").as_deref(), Some("tmpfs"));
        assert_eq!(of("/home/ada").as_deref(), Some("ext4"));
        assert_eq!(of("/tmpfoo").as_deref(), Some("xfs"));
    }
}
