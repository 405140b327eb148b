//! Where a benchmark works, and since when.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A directory of its own, which is removed at the end.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    started_at: Instant,
}

impl Place {
    pub(crate) fn new(below: &Path, name: &str) -> Self {
        let dir = below.join(format!("bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self { dir: dir.canonicalize().unwrap(), started_at: Instant::now() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A directory in it that is not there yet.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        if dir.exists() {
            remove(&dir);
        }
        dir
    }

    /// Tells whoever waits how far it is.
    pub(crate) fn progress(&self, what: &str) {
        eprintln!("[{:>4} s] {what}", self.seconds() as u64);
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started_at.elapsed().as_secs_f64()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{} is left behind: {error}", self.dir.display());
        }
    }
}

/// Removes a directory, and waits until the file system is done with that.
pub(crate) fn remove(dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
    crate::machine::sync();
}
