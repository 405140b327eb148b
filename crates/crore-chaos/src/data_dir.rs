//! The server's directory: a plain one, or on a disk of its own whose power can be cut or which can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crore_testkit::Error;
use crore_testkit::mount::{FileSystem, Mounts};
use tempfile::TempDir;

/// The outer file system is sized in KiB.
const KIB_PER_MIB: u64 = 1 << 10;
/// The minimum size of an XFS.
const XFS_MIB: u64 = 320;
const EXT4_MIB: u64 = 64;
/// Small enough to fill quickly.
const SMALL_MIB: u64 = 48;

/// The server's directory and the disk under it.
#[derive(Debug)]
pub(crate) struct DataDir {
    /// Removed on drop, unless the data is kept.
    home: TempDir,
    disk: Option<Mounts>,
    data: PathBuf,
    ballast: Option<PathBuf>,
}

impl DataDir {
    /// On the disk of the temporary directory.
    pub(crate) fn plain() -> Result<Self, Error> {
        let home = tempfile::Builder::new().prefix("crore-chaos-").tempdir();
        let home =
            home.map_err(|error| Error::Failed(format!("no temporary directory: {error}")))?;
        let data = home.path().join("data");
        Ok(Self { home, disk: None, data, ballast: None })
    }

    /// On a file system whose power can be cut.
    pub(crate) fn on_image(file_system: FileSystem) -> Result<Self, Error> {
        let mib = match file_system {
            FileSystem::Xfs => XFS_MIB,
            FileSystem::Ext4 => EXT4_MIB,
        };
        let disk = Mounts::with_image((mib + 32) * KIB_PER_MIB, file_system, mib)?;
        let data = disk.inner().join("data");
        Ok(Self { disk: Some(disk), data, ..Self::plain()? })
    }

    /// On a small file system, which can be filled.
    pub(crate) fn on_small_disk() -> Result<Self, Error> {
        let disk = Mounts::new(SMALL_MIB * KIB_PER_MIB)?;
        let data = disk.outer().join("data");
        let ballast = Some(disk.outer().join("ballast"));
        Ok(Self { disk: Some(disk), data, ballast, ..Self::plain()? })
    }

    /// The server's data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The directory for everything else: logs, the clock file, the history.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Cuts the power of the disk and of the server: unsynced writes are lost, and the server acknowledges nothing any
    /// more. The caller kills the server.
    pub(crate) fn cut_power(&self, server: u32) -> Result<(), Error> {
        self.disk().cut_power(Some(server)).map_err(Error::Failed)
    }

    /// Remounts the disk after a power cut; no process has a file open on it.
    pub(crate) fn restore_power(&self) -> Result<(), Error> {
        self.disk().unmount().and_then(|()| self.disk().mount()).map_err(Error::Failed)
    }

    fn disk(&self) -> &Mounts {
        self.disk.as_ref().expect("only a directory on a disk of its own has its power cut")
    }

    /// Fills the disk to the last byte.
    pub(crate) fn fill(&self) -> Result<(), Error> {
        let failed = |error| Error::Failed(format!("the disk cannot be filled: {error}"));
        let mut file = File::create(self.ballast()).map_err(failed)?;
        for size in [1 << 16, 1 << 12, 1] {
            let bytes = vec![1; size];
            while file.write_all(&bytes).is_ok() {}
        }
        Ok(())
    }

    /// Frees the space again.
    pub(crate) fn free(&self) -> Result<(), Error> {
        let freed = fs::remove_file(self.ballast());
        freed.map_err(|error| Error::Failed(format!("the disk cannot be freed: {error}")))
    }

    fn ballast(&self) -> &Path {
        self.ballast.as_deref().expect("only a directory on a small disk is filled")
    }

    /// Keeps the directory, with a copy of the data, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        let copy = self.home.path().join("data");
        if self.data != copy {
            // Best effort: a file that cannot be copied is missing in the copy.
            let _ = copy_all(&self.data, &copy);
        }
        self.home.keep()
    }
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
