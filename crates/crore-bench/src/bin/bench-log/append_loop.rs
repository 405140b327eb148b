//! The upper bound: a loop that only appends, in groups of a fixed size, with one write and one fdatasync each, to
//! preallocated files that are reused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crore_bench::driver::RunFigures;

/// The segment size of the store.
pub(crate) const FILE_BYTES: u64 = 64 << 20;
const FILES: usize = 4;

/// Files to append to, and the position of the last append.
#[derive(Debug)]
pub(crate) struct AppendLoop {
    files: Vec<File>,
    file: usize,
    at: u64,
}

impl AppendLoop {
    /// Preallocates the files.
    pub(crate) fn prepare(dir: &Path) -> Self {
        let zeros = vec![0; 1 << 20];
        let prepared = |n: usize| {
            let file = File::create_new(dir.join(format!("bare-{n}"))).unwrap();
            for at in (0..FILE_BYTES).step_by(zeros.len()) {
                file.write_all_at(&zeros, at).unwrap();
            }
            file.sync_all().unwrap();
            file
        };
        Self { files: (0..FILES).map(prepared).collect(), file: 0, at: 0 }
    }

    /// Appends groups of records of this size.
    pub(crate) fn append(&mut self, group: usize, record_bytes: f64, span: Duration) -> RunFigures {
        let bytes = vec![7; (group as f64 * record_bytes) as usize];
        let (start, mut records) = (Instant::now(), 0);
        while start.elapsed() < span {
            if self.at + bytes.len() as u64 > FILE_BYTES {
                self.file = (self.file + 1) % self.files.len();
                self.at = 0;
            }
            let file = &self.files[self.file];
            file.write_all_at(&bytes, self.at).unwrap();
            file.sync_data().unwrap();
            self.at += bytes.len() as u64;
            records += group as u64;
        }
        RunFigures::without_callers(records, start.elapsed())
    }
}
