//! A server of its own: the same program, in a directory and on a port that nobody else has, gone when it is dropped.

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

/// How long it may take to start.
const START_FOR: Duration = Duration::from_secs(30);

/// A server of its own.
#[derive(Debug)]
pub(super) struct Own {
    child: Child,
    pub(super) url: String,
    dir: TempDir,
}

impl Own {
    /// Starts it, with a directory of its own below this one, as a server is that nobody has configured.
    pub(super) fn start(below: Option<&Path>) -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("crore-bench-");
        let dir = match below {
            Some(below) => builder.tempdir_in(below).with_context(|| {
                format!("--data: no directory can be made in `{}`", below.display())
            })?,
            None => builder.tempdir().context("no temporary directory can be made")?,
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
        // What a terminal sends to all of its programs is for us to hear, and not for the server.
        command.process_group(0);
        let mut child = command.spawn().context("a server of its own cannot be started")?;
        let said = follow(&mut child);
        let mut own = Self { child, url: String::new(), dir };
        while let Ok(line) = said.recv_timeout(START_FOR) {
            if let Some((_, url)) = line.split_once(" listens on ") {
                own.url = url.to_owned();
                return Ok(own);
            }
        }
        let wrote = fs::read_to_string(&log).unwrap_or_default();
        bail!("a server of its own did not start: {}", wrote.trim());
    }

    /// The sort of file system that its directory is on.
    pub(super) fn file_system(&self) -> Option<String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        file_system(&mounts, &self.dir.path().canonicalize().ok()?)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Nothing of it is kept, so there is nothing to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What it says, line by line, as long as it is there.
fn follow(child: &mut Child) -> Receiver<String> {
    let (line, lines) = channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            for said in BufReader::new(stdout).lines().map_while(Result::ok) {
                // When we know where it listens, nobody reads on.
                let _ = line.send(said);
            }
        });
    }
    lines
}

/// The sort of the innermost mount that a path lies in, by `/proc/PID/mountinfo`: the fifth field is where it is, and
/// the first behind the dash is what.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let place = head.split(' ').nth(4)?;
        path.starts_with(place).then(|| (place.len(), tail.split(' ').next()))
    });
    let (_, sort) = mounts.max_by_key(|(length, _)| *length)?;
    sort.map(ToOwned::to_owned)
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
