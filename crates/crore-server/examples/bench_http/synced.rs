//! A file with room in it: what a sync of a small write to it takes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const BYTES: usize = 1 << 20;
const WRITE: usize = 512;

pub(crate) struct Synced(File);

impl Synced {
    pub(crate) fn new(path: &Path) -> Self {
        let file = File::create_new(path).unwrap();
        file.write_all_at(&vec![0; BYTES], 0).unwrap();
        file.sync_all().unwrap();
        Self(file)
    }

    /// How long the sync of one more write takes.
    pub(crate) fn sync(&self, nth: usize) -> Duration {
        self.0.write_all_at(&[7; WRITE], (nth * WRITE % BYTES) as u64).unwrap();
        let start = Instant::now();
        self.0.sync_data().unwrap();
        start.elapsed()
    }
}
