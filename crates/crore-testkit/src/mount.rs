//! File systems of our own, in a temporary directory, that can be filled, broken and cut off.
//!
//! They need root, and loop devices for all but the plain one; a machine that cannot do it says so
//! with [`Error::Unable`].
//!
//! A mount outlives a process that is killed. So a shell waits on a pipe whose other end only this
//! process holds, and unmounts and removes everything when that is closed, however we end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::eventually::poll;
use crate::{Error, Package};

/// How long somebody else may have a copy of a mount.
const FREE_WITHIN: Duration = Duration::from_secs(30);

/// `$1` is the directory of everything. The inner mount goes first.
const CLEAR_AWAY: &str = r#"
trap '' HUP INT TERM
read -r _
for at in "$1/inner" "$1/outer"; do
    while mountpoint -q "$at"; do umount "$at" || umount -l "$at" || break; done
done
rm -rf --one-file-system "$1"
"#;

/// A sort of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
}

/// Two places to mount at: the outer one is a tmpfs, and in the inner one is the file system that is
/// in an image in the outer one.
#[derive(Debug)]
pub struct Mounts {
    home: PathBuf,
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Mounts {
    /// Mounts a tmpfs of so many KiB.
    ///
    /// # Errors
    ///
    /// [`Error::Unable`] where nothing can be mounted.
    pub fn new(kib: u64) -> Result<Self, Error> {
        let home = tempfile::Builder::new().prefix("crore-mounts-").tempdir();
        let home = home.map_err(|error| Error::Failed(format!("no directory: {error}")))?;
        if fs::metadata(home.path()).is_ok_and(|home| home.uid() != 0) {
            return Err(Error::Unable("mounting needs root".to_owned()));
        }
        let home = home.keep();
        let mut shell = command("/bin/sh")
            .args(["-c", CLEAR_AWAY, "crore-mounts"])
            .arg(&home)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Failed(format!("no shell: {error}")))?;
        let leash = shell.stdin.take();
        let mounts = Self { home, shell, leash };
        for place in [mounts.outer(), mounts.inner()] {
            fs::create_dir(place).map_err(|error| Error::Failed(error.to_string()))?;
        }
        let outer = mounts.outer();
        let size = format!("size={kib}k");
        let mounted = run(command("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(outer));
        mounted.map_err(Error::Unable)?;
        Ok(mounts)
    }

    /// The same with a file system of so many MiB in it, whose image is sparse.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without the tools, [`Error::Unable`] where nothing can be mounted.
    pub fn with_image(kib: u64, sort: Sort, mib: u64) -> Result<Self, Error> {
        Package::Xfs.require()?;
        if !Path::new("/dev/loop-control").exists() {
            return Err(Error::Unable("there are no loop devices".to_owned()));
        }
        let mounts = Self::new(kib)?;
        let image = fs::File::create_new(mounts.image());
        let sized = image.and_then(|image| image.set_len(mib << 20));
        sized.map_err(|error| Error::Failed(error.to_string()))?;
        let (program, quiet) = match sort {
            Sort::Xfs => ("mkfs.xfs", "-q"),
            Sort::Ext4 => ("mkfs.ext4", "-q"),
        };
        run(command(program).arg(quiet).arg(mounts.image())).map_err(Error::Failed)?;
        mounts.mount().map_err(Error::Unable)?;
        Ok(mounts)
    }

    /// Where the outer file system is.
    pub fn outer(&self) -> PathBuf {
        self.home.join("outer")
    }

    /// Where the inner file system is.
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
    /// What the system says.
    pub fn mount(&self) -> Result<(), String> {
        run(command("mount").args(["-o", "loop"]).arg(self.image()).arg(self.inner()))
    }

    /// Unmounts the inner file system; nobody may have a file of it open. Whoever made a mount namespace of his own
    /// meanwhile has a copy of the mount, and as long as he has, the file system is the one that was cut off: that is
    /// waited for.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn unmount(&self) -> Result<(), String> {
        run(command("umount").arg(self.inner()))?;
        let device = || told(command("losetup").arg("--associated").arg(self.image()));
        poll(FREE_WITHIN, || {
            device().map_or_else(Err, |device| match device.as_str() {
                "" => Ok(()),
                _ => Err(device),
            })
        })
        .map_err(|device| format!("somebody has a copy of the mount: {device}"))
    }

    /// Everything that the inner file system has not put on its disk is gone, and it takes nothing
    /// more: what a power cut does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn cut_power(&self) -> Result<(), String> {
        run(command("xfs_io").args(["-F", "-x", "-c", "shutdown"]).arg(self.inner()))
    }

    /// Makes the outer file system larger.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn grow(&self, kib: u64) -> Result<(), String> {
        let size = format!("remount,size={kib}k");
        run(command("mount").args(["-o", &size]).arg(self.outer()))
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        drop(self.leash.take());
        // There is nobody to report a failure to.
        let _ = self.shell.wait();
    }
}

/// Programs of the system lie where a user's path does not always lead.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    told(command).map(drop)
}

/// What it prints.
fn told(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {}", output.status, said.trim()))
}
