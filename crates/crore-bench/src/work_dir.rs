//! The working directory of a benchmark run, and its clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A directory of its own, removed on drop.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    started_at: Instant,
}

impl WorkDir {
    pub fn new(below: &Path, name: &str) -> Self {
        let path = below.join(format!("bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self { path: path.canonicalize().unwrap(), started_at: Instant::now() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it that does not exist; a previous directory is removed.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let dir = self.path.join(name);
        if dir.exists() {
            remove(&dir);
        }
        dir
    }

    /// Prints a progress line.
    pub fn progress(&self, what: &str) {
        eprintln!("[{:>4} s] {what}", self.seconds() as u64);
    }

    /// Seconds since the run started.
    pub fn seconds(&self) -> f64 {
        self.started_at.elapsed().as_secs_f64()
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes a directory, and waits until the file system has synced that.
pub fn remove(dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
    crate::machine::sync();
}
