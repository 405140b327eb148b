//! Where a server has its directory: a disk of its own that can be cut off or filled, or any.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crore_testkit::Error;
use crore_testkit::mount::{Mounts, Sort};
use tempfile::TempDir;

/// In KiB, as the size of the outer file system is said.
const MIB: u64 = 1 << 10;
/// What an XFS needs at least.
const XFS_MIB: u64 = 320;
const EXT4_MIB: u64 = 64;
/// A disk that is soon full.
const SMALL_MIB: u64 = 48;

/// Where a server has its directory.
#[derive(Debug)]
pub(crate) struct Place {
    /// Removed at the end, unless it is kept.
    home: TempDir,
    disk: Option<Mounts>,
    data: PathBuf,
    ballast: Option<PathBuf>,
}

impl Place {
    /// A plain directory.
    pub(crate) fn plain() -> Result<Self, Error> {
        let home = tempfile::Builder::new().prefix("crore-chaos-").tempdir();
        let home = home.map_err(|error| Error::Failed(format!("no directory: {error}")))?;
        let data = home.path().join("data");
        Ok(Self { home, disk: None, data, ballast: None })
    }

    /// On a file system whose power can be cut.
    pub(crate) fn with_power(sort: Sort) -> Result<Self, Error> {
        let mib = match sort {
            Sort::Xfs => XFS_MIB,
            Sort::Ext4 => EXT4_MIB,
        };
        let disk = Mounts::with_image((mib + 32) * MIB, sort, mib)?;
        let data = disk.inner().join("data");
        Ok(Self { disk: Some(disk), data, ..Self::plain()? })
    }

    /// On a small file system.
    pub(crate) fn small() -> Result<Self, Error> {
        let disk = Mounts::new(SMALL_MIB * MIB)?;
        let data = disk.outer().join("data");
        let ballast = Some(disk.outer().join("ballast"));
        Ok(Self { disk: Some(disk), data, ballast, ..Self::plain()? })
    }

    /// The server's directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Where everything else is.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Cuts the power: what is not on the disk is gone, and the disk takes nothing more.
    pub(crate) fn cut(&self) -> Result<(), Error> {
        self.disk().cut_power().map_err(Error::Failed)
    }

    /// The power is back; nobody has a file open.
    pub(crate) fn restore(&self) -> Result<(), Error> {
        self.disk().unmount().and_then(|()| self.disk().mount()).map_err(Error::Failed)
    }

    fn disk(&self) -> &Mounts {
        self.disk.as_ref().expect("only a place with a disk is cut off")
    }

    /// Fills the disk to the last byte.
    pub(crate) fn fill(&self) -> Result<(), Error> {
        let failed = |error| Error::Failed(format!("the disk is not filled: {error}"));
        let mut file = File::create(self.ballast()).map_err(failed)?;
        for size in [1 << 16, 1 << 12, 1] {
            let bytes = vec![1; size];
            while file.write_all(&bytes).is_ok() {}
        }
        Ok(())
    }

    /// Makes room again.
    pub(crate) fn free(&self) -> Result<(), Error> {
        let freed = fs::remove_file(self.ballast());
        freed.map_err(|error| Error::Failed(format!("the disk is not freed: {error}")))
    }

    fn ballast(&self) -> &Path {
        self.ballast.as_deref().expect("only a small place is filled")
    }

    /// Keeps everything, and says where.
    pub(crate) fn keep(self) -> PathBuf {
        let copy = self.home.path().join("data");
        if self.data != copy {
            // What cannot be copied is missing there, and whoever looks will see it.
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
