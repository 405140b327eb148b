//! Backup of a store in use.
//!
//! While files are copied they are not reused, and nothing behind the durable end at the start is
//! copied. No operation waits for a backup; the store grows a little meanwhile.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::disk::{Directory, Disk, DiskFile, OpenMode};
use super::frame;
use super::inner::{EmbeddedInner, EmbeddedState};
use super::recover::{corrupt, unavailable};
use super::scan;
use super::segment::{self, HEAD_BYTES, SegmentHead};
use super::store::Embedded;
use crate::Error;

/// A completed backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// Number of files.
    pub segments: usize,
    /// Number of bytes.
    pub bytes: u64,
    /// The newest commit in it: everything acknowledged before the backup began is included.
    pub commit: u64,
}

impl Embedded {
    /// Makes a backup in an empty directory, creating the directory if needed. The result is a
    /// store that can be opened, with everything acknowledged before the call, and possibly more.
    ///
    /// Other operations continue. The call blocks until everything is copied and synced. Opening an
    /// interrupted backup fails with an error that says so.
    pub fn backup(&self, to: &Path) -> Result<Backup, Error> {
        self.backup_to(&Directory::open(to).map_err(unavailable)?)
    }

    /// Like [`Self::backup`], onto any disk without files.
    pub fn backup_to(&self, disk: &dyn Disk) -> Result<Backup, Error> {
        self.inner().backup_to(disk)
    }
}

/// A file to copy.
#[derive(Debug)]
struct BackupFile {
    segment: u32,
    name: u64,
    file: Arc<dyn DiskFile>,
    /// End of its frames; `None` if the file is about to be released and is copied whole.
    end: Option<u64>,
}

/// Prevents the reuse of files while it exists.
struct FilePin<'a>(&'a EmbeddedInner);

impl Drop for FilePin<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.local.records_mut().pins -= 1;
        self.0.keeper_wakeup.notify_one();
    }
}

impl EmbeddedInner {
    fn backup_to(&self, disk: &dyn Disk) -> Result<Backup, Error> {
        let mut names = disk.list().map_err(unavailable)?;
        names.sort();
        if let Some(name) = names.first() {
            let what = format!("a backup needs an empty directory, but it has `{name}`");
            return Err(Error::Foreign { what });
        }
        write_mark(disk, BEGUN)?;
        let (parts, commit, seed) = self.with_settled_log(|state| {
            state.local.records_mut().pins += 1;
            state.files_to_copy()
        })?;
        let pin = FilePin(self);
        let mut bytes = 0;
        for part in &parts {
            bytes += part.copy(disk, seed)?;
        }
        drop(pin);
        write_mark(disk, DONE)?;
        disk.remove(MARK).map_err(unavailable)?;
        Ok(Backup { segments: parts.len(), bytes, commit })
    }
}

impl EmbeddedState {
    /// The files with everything up to the newest durable commit, that commit, and the store's
    /// seed.
    fn files_to_copy(&self) -> (Vec<BackupFile>, u64, u64) {
        let log = self.local.records();
        let commit = log.pending.commit - 1;
        // A segment released by a commit that is not durable yet is still in use.
        let freed =
            log.freed.iter().filter(|freed| freed.commit > commit).map(|freed| BackupFile {
                segment: freed.segment,
                name: freed.name,
                file: Arc::clone(&freed.file),
                end: None,
            });
        let segments = log.segments.iter().map(|(number, segment)| BackupFile {
            segment: *number,
            name: segment.name,
            file: Arc::clone(&segment.file),
            end: Some(segment.end),
        });
        (freed.chain(segments).collect(), commit, log.seed)
    }
}

impl BackupFile {
    /// Checks and copies the used part.
    fn copy(&self, disk: &dyn Disk, seed: u64) -> Result<u64, Error> {
        let bytes = match self.end {
            None => scan::read_all(&*self.file).map_err(unavailable)?,
            Some(end) => {
                let mut bytes = vec![0; end as usize];
                let n = self.file.read(0, &mut bytes).map_err(unavailable)?;
                bytes.truncate(n);
                self.check(&bytes, seed, end)?;
                // The copy is as long as its content.
                let size = bytes.len() as u64;
                let head = SegmentHead { segment: self.segment.into(), seed, size };
                bytes.splice(..HEAD_BYTES, head.bytes());
                bytes
            }
        };
        let file = disk.open(&segment::name(self.name), OpenMode::Create).map_err(unavailable)?;
        file.write(0, &bytes).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        Ok(bytes.len() as u64)
    }

    /// Checks the copy, so that damage is found now and not when the backup is needed.
    fn check(&self, bytes: &[u8], seed: u64, end: u64) -> Result<(), Error> {
        let mut at = HEAD_BYTES as u64;
        while at < end {
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let header = frame::check(rest, seed, self.segment.into());
            at += header.map_err(|damaged| corrupt(self.name, at, damaged.0))?.stride();
        }
        Ok(())
    }
}

/// The file that marks an unfinished backup.
const MARK: &str = "backup-unfinished";
const BEGUN: &[u8; 4] = b"open";
const DONE: &[u8; 4] = b"done";

fn write_mark(disk: &dyn Disk, mark: &[u8; 4]) -> Result<(), Error> {
    let file = disk.open(MARK, OpenMode::Create).map_err(unavailable)?;
    file.write(0, mark).map_err(unavailable)?;
    file.sync().map_err(unavailable)
}

/// Refuses an unfinished backup. The mark of a finished one may remain if a crash prevented its
/// removal.
pub(crate) fn check_mark(disk: &dyn Disk, names: &[String]) -> Result<(), Error> {
    if !names.iter().any(|name| name == MARK) {
        return Ok(());
    }
    let file = disk.open(MARK, OpenMode::Existing).map_err(unavailable)?;
    if scan::read_all(&*file).map_err(unavailable)? == DONE {
        return Ok(());
    }
    let what = format!("an incomplete backup (`{MARK}` exists): repeat the backup");
    Err(Error::Foreign { what })
}
