//! Temporary file systems that can be filled, broken and cut off from power.
//!
//! They need root, and loop devices for all but tmpfs; otherwise they return [`Error::Unable`].
//!
//! A mount outlives a killed process. A shell therefore waits on a pipe whose other end only this process
//! holds; when the pipe closes, however the process ends, the shell unmounts and removes everything.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::eventually::poll;
use crate::frozen::freeze;
use crate::{DebianPackage, Error};

/// Timeout for other mount namespaces to release their copies of a mount.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// `$1` is the home directory of the mounts. The inner mount is unmounted first.
const CLEANUP_SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _
for at in "$1/inner" "$1/outer"; do
    while mountpoint -q "$at"; do umount "$at" || umount -l "$at" || break; done
done
rm -rf --one-file-system "$1"
"#;

/// Type of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
}

/// Two nested mounts: the outer one is a tmpfs that contains an image, the inner one is the file system in
/// that image.
#[derive(Debug)]
pub struct Mounts {
    home: PathBuf,
    shell: Child,
    lifeline: Option<ChildStdin>,
}

impl Mounts {
    /// Mounts a tmpfs of `kib` KiB.
    ///
    /// # Errors
    ///
    /// [`Error::Unable`] where mounting is not possible.
    pub fn new(kib: u64) -> Result<Self, Error> {
        let home = tempfile::Builder::new().prefix("crore-mounts-").tempdir();
        let home = home.map_err(|error| Error::Failed(format!("no directory: {error}")))?;
        if fs::metadata(home.path()).is_ok_and(|home| home.uid() != 0) {
            return Err(Error::Unable("mounting needs root".to_owned()));
        }
        let home = home.keep();
        let mut shell = command("/bin/sh")
            .args(["-c", CLEANUP_SCRIPT, "crore-mounts"])
            .arg(&home)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Failed(format!("no shell: {error}")))?;
        let lifeline = shell.stdin.take();
        let mounts = Self { home, shell, lifeline };
        for dir in [mounts.outer(), mounts.inner()] {
            fs::create_dir(dir).map_err(|error| Error::Failed(error.to_string()))?;
        }
        let outer = mounts.outer();
        let size = format!("size={kib}k");
        let mounted = run(command("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(outer));
        mounted.map_err(Error::Unable)?;
        Ok(mounts)
    }

    /// Like [`Mounts::new`], with a file system of `mib` MiB in a sparse image.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without the tools, [`Error::Unable`] where mounting is not possible.
    pub fn with_image(kib: u64, file_system: FileSystem, mib: u64) -> Result<Self, Error> {
        DebianPackage::Xfs.require()?;
        if !Path::new("/dev/loop-control").exists() {
            return Err(Error::Unable("no loop devices".to_owned()));
        }
        let mounts = Self::new(kib)?;
        let image = fs::File::create_new(mounts.image());
        let sized = image.and_then(|image| image.set_len(mib << 20));
        sized.map_err(|error| Error::Failed(error.to_string()))?;
        let (program, quiet) = match file_system {
            FileSystem::Xfs => ("mkfs.xfs", "-q"),
            FileSystem::Ext4 => ("mkfs.ext4", "-q"),
        };
        run(command(program).arg(quiet).arg(mounts.image())).map_err(Error::Failed)?;
        mounts.mount().map_err(Error::Unable)?;
        Ok(mounts)
    }

    /// Mount point of the outer file system.
    pub fn outer(&self) -> PathBuf {
        self.home.join("outer")
    }

    /// Mount point of the inner file system.
    pub fn inner(&self) -> PathBuf {
        self.home.join("inner")
    }

    fn image(&self) -> PathBuf {
        self.outer().join("image")
    }

    /// Mounts the inner file system.
    ///
    /// # Errors
    ///
    /// The output of `mount`.
    pub fn mount(&self) -> Result<(), String> {
        run(command("mount").args(["-o", "loop"]).arg(self.image()).arg(self.inner()))
    }

    /// Unmounts the inner file system, which must have no open files. A mount namespace created in the
    /// meantime holds a copy of the mount and keeps the cut-off file system alive, so this waits until no
    /// copy is left.
    ///
    /// # Errors
    ///
    /// The output of `umount`, or the loop device that is still in use.
    pub fn unmount(&self) -> Result<(), String> {
        run(command("umount").arg(self.inner()))?;
        let device = || output_of(command("losetup").arg("--associated").arg(self.image()));
        poll(RELEASE_TIMEOUT, || {
            device().map_or_else(Err, |device| match device.as_str() {
                "" => Ok(()),
                _ => Err(device),
            })
        })
        .map_err(|device| format!("another mount namespace still holds the mount: {device}"))
    }

    /// Simulates a power cut: the inner file system loses everything that is not on its disk, and refuses all
    /// further writes. The process that writes to it is stopped first, and must then be killed: while ext4 is being
    /// shut down, an fdatasync in progress returns success although the file's new length is lost, and the
    /// process would acknowledge such a write. A power cut lets nobody acknowledge anything.
    ///
    /// # Errors
    ///
    /// The output of `xfs_io`, or the states of threads that do not stop.
    pub fn cut_power(&self, writer: Option<u32>) -> Result<(), String> {
        writer.map_or(Ok(()), freeze)?;
        run(command("xfs_io").args(["-F", "-x", "-c", "shutdown"]).arg(self.inner()))
    }

    /// Grows the outer file system.
    ///
    /// # Errors
    ///
    /// The output of `mount`.
    pub fn grow(&self, kib: u64) -> Result<(), String> {
        let size = format!("remount,size={kib}k");
        run(command("mount").args(["-o", &size]).arg(self.outer()))
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // No one is left to report a failure to.
        let _ = self.shell.wait();
    }
}

/// A user's `PATH` may lack the directories of system programs.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    output_of(command).map(drop)
}

/// Runs a command and returns its output.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {}", output.status, stderr.trim()))
}
