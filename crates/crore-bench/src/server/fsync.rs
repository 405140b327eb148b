//! A probe of the disk: the time of one fdatasync after a small write to a preallocated file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const BYTES: usize = 1 << 20;
const WRITE: usize = 512;

/// A preallocated file.
#[derive(Debug)]
pub struct FsyncProbe(File);

impl FsyncProbe {
    /// Creates the file.
    pub fn new(path: &Path) -> Self {
        let file = File::create_new(path).unwrap();
        file.write_all_at(&vec![0; BYTES], 0).unwrap();
        file.sync_all().unwrap();
        Self(file)
    }

    /// Duration of the sync after the `nth` write.
    pub fn sync(&self, nth: usize) -> Duration {
        self.0.write_all_at(&[7; WRITE], (nth * WRITE % BYTES) as u64).unwrap();
        let start = Instant::now();
        self.0.sync_data().unwrap();
        start.elapsed()
    }
}
