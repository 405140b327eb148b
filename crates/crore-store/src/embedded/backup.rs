//! Backing a store up while it is in use.
//!
//! Files that are being copied are not used again meanwhile, and what is written behind the end that
//! was durable at the start is not copied. So nobody waits for a backup; the store grows a little.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::disk::{Directory, Disk, File, Open};
use super::frame;
use super::inner::{Inner, State};
use super::recover::{corrupt, unavailable};
use super::scan;
use super::segment::{self, HEAD, Head};
use super::store::Embedded;
use crate::Error;

/// A backup that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// How many files it has.
    pub segments: usize,
    /// How many bytes.
    pub bytes: u64,
    /// The newest commit in it: everything that was answered before it was begun.
    pub commit: u64,
}

impl Embedded {
    /// Makes a backup into an empty directory, which is made if it is not there: a store that can be
    /// opened, with everything that was answered before the call, and perhaps more.
    ///
    /// Others go on with their work. The caller waits until everything is copied and on the disk. A
    /// backup that was interrupted is no store: opening it says so.
    pub fn backup(&self, to: &Path) -> Result<Backup, Error> {
        self.backup_to(&Directory::open(to).map_err(unavailable)?)
    }

    /// [`Self::backup`], onto any disk without files.
    pub fn backup_to(&self, disk: &dyn Disk) -> Result<Backup, Error> {
        self.inner().backup_to(disk)
    }
}

/// A file to copy.
#[derive(Debug)]
struct Part {
    segment: u32,
    name: u64,
    file: Arc<dyn File>,
    /// Where its frames end; `None`: it is to be given up, and copied whole.
    end: Option<u64>,
}

/// While this is there, no file is used for something else.
struct Pin<'a>(&'a Inner);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.local.records_mut().pins -= 1;
        self.0.to_keep.notify_one();
    }
}

impl Inner {
    fn backup_to(&self, disk: &dyn Disk) -> Result<Backup, Error> {
        let mut names = disk.list().map_err(unavailable)?;
        names.sort();
        if let Some(name) = names.first() {
            let what = format!("a backup needs an empty directory, and there is `{name}`");
            return Err(Error::Foreign { what });
        }
        mark(disk, BEGUN)?;
        let (parts, commit, seed) = self.settled(|state| {
            state.local.records_mut().pins += 1;
            state.parts()
        })?;
        let pin = Pin(self);
        let mut bytes = 0;
        for part in &parts {
            bytes += part.copy(disk, seed)?;
        }
        drop(pin);
        mark(disk, DONE)?;
        disk.remove(MARK).map_err(unavailable)?;
        Ok(Backup { segments: parts.len(), bytes, commit })
    }
}

impl State {
    /// The files that hold everything up to the newest commit that is durable, that commit, and the
    /// store's seed.
    fn parts(&self) -> (Vec<Part>, u64, u64) {
        let log = self.local.records();
        let commit = log.tail.commit - 1;
        // What is given up by a commit that is not durable yet counts until it is.
        let freed = log.freed.iter().filter(|freed| freed.commit > commit).map(|freed| Part {
            segment: freed.segment,
            name: freed.name,
            file: Arc::clone(&freed.file),
            end: None,
        });
        let segments = log.segments.iter().map(|(number, segment)| Part {
            segment: *number,
            name: segment.name,
            file: Arc::clone(&segment.file),
            end: Some(segment.end),
        });
        (freed.chain(segments).collect(), commit, log.seed)
    }
}

impl Part {
    /// Copies what counts, if it is good.
    fn copy(&self, disk: &dyn Disk, seed: u64) -> Result<u64, Error> {
        let bytes = match self.end {
            None => scan::read_all(&*self.file).map_err(unavailable)?,
            Some(end) => {
                let mut bytes = vec![0; end as usize];
                let n = self.file.read(0, &mut bytes).map_err(unavailable)?;
                bytes.truncate(n);
                self.check(&bytes, seed, end)?;
                // The copy is as long as what it holds.
                let size = bytes.len() as u64;
                let head = Head { segment: self.segment.into(), seed, size };
                bytes.splice(..HEAD, head.bytes());
                bytes
            }
        };
        let file = disk.open(&segment::name(self.name), Open::Create).map_err(unavailable)?;
        file.write(0, &bytes).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        Ok(bytes.len() as u64)
    }

    /// A backup of damage would be found out when it is needed.
    fn check(&self, bytes: &[u8], seed: u64, end: u64) -> Result<(), Error> {
        let mut at = HEAD as u64;
        while at < end {
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let header = frame::check(rest, seed, self.segment.into());
            at += header.map_err(|damaged| corrupt(self.name, at, damaged.0))?.stride();
        }
        Ok(())
    }
}

/// The file that says whether a backup is finished.
const MARK: &str = "backup-unfinished";
const BEGUN: &[u8; 4] = b"open";
const DONE: &[u8; 4] = b"done";

fn mark(disk: &dyn Disk, how: &[u8; 4]) -> Result<(), Error> {
    let file = disk.open(MARK, Open::Create).map_err(unavailable)?;
    file.write(0, how).map_err(unavailable)?;
    file.sync().map_err(unavailable)
}

/// Refuses a backup that was not finished. A mark of one that was may be there if the machine stopped
/// right then.
pub(crate) fn check_mark(disk: &dyn Disk, names: &[String]) -> Result<(), Error> {
    if !names.iter().any(|name| name == MARK) {
        return Ok(());
    }
    let file = disk.open(MARK, Open::Existing).map_err(unavailable)?;
    if scan::read_all(&*file).map_err(unavailable)? == DONE {
        return Ok(());
    }
    let what = format!("it is a backup that was not finished, as `{MARK}` says: make it again");
    Err(Error::Foreign { what })
}
