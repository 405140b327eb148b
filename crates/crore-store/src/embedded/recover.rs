//! Opening a store: finds the log files, checks them, and builds the index or refuses.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crore_core::{Clock, Time};

use super::backup;
use super::commit::{CommitWriter, SyncMode};
use super::disk::{Disk, DiskFile, OpenMode};
use super::durable::DurabilityTracker;
use super::inner::{EmbeddedInner, EmbeddedState, ThreadState, WakeHooks};
use super::log::Log;
use super::log_files::FreedFile;
use super::new_file::{AfterPart, make_segment};
use super::options::Options;
use super::pending_commit::PendingCommit;
use super::record::Meta;
use super::replay::Recovered;
use super::scan;
use super::segment::{self, FileKind, HEAD_BYTES, SegmentHead};
use crate::bug::planted;
use crate::local::LocalIndex;
use crate::metrics::CommitCounters;
use crate::{Error, StoreId};

/// Deliveries per opening of the store. The next opening starts beyond every number that this one
/// may have used and lost.
const EPOCH_BITS: u32 = 40;

/// Description of a file that is shorter than its head says.
pub(crate) const TRUNCATED: &str = "the file is truncated";

/// Findings when a store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenReport {
    /// Number of files in the log.
    pub segments: usize,
    /// The newest commit.
    pub commit: u64,
    /// Position of an unfinished commit at the end of the log, which was discarded.
    pub unfinished: Option<String>,
}

/// A file with a valid segment head.
#[derive(Debug)]
pub(crate) struct SegmentCandidate {
    pub(crate) name: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) head: SegmentHead,
}

impl SegmentCandidate {
    /// Converts a segment that is no longer in use.
    pub(crate) fn freed(self) -> Result<FreedFile, Error> {
        let size = scan::size(&*self.file).map_err(unavailable)?;
        let segment = u32::try_from(self.head.segment).unwrap_or(u32::MAX);
        Ok(FreedFile { commit: 0, name: self.name, segment, file: self.file, size })
    }
}

impl EmbeddedInner {
    /// Opens a store, or creates one in an empty directory.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
        seed: u64,
    ) -> Result<(Self, OpenReport), Error> {
        let opening = StoreOpening::read_files(&*disk, &options)?;
        let Recovered { mut local, numbers, last, found } = match opening.seed() {
            None => opening.create(seed)?,
            Some(seed) => opening.recover(seed)?,
        };
        let commit = local.records().pending.commit - 1;
        local.restore_numbers(numbers.last_id, next_epoch(numbers.last_delivery), numbers.revision);
        local.set_defaults(options.queues.clone());
        let id = local.identity_or(StoreId::draw);
        let meta = local.meta();
        local.records_mut().append_meta(meta);
        let mut state = EmbeddedState {
            local,
            last_time: last,
            full: None,
            stopping: false,
            committer: ThreadState::Awake,
            has_waiters: false,
            closed_commit: None,
            keeper: ThreadState::Awake,
        };
        state.append_touched();
        let inner = Self {
            id,
            disk,
            clock,
            options,
            state: Mutex::new(state),
            commit_writer: Mutex::new(CommitWriter::default()),
            keeper: Mutex::default(),
            committer_wakeup: Condvar::new(),
            keeper_wakeup: Condvar::new(),
            durable: DurabilityTracker::up_to(commit),
            hooks: WakeHooks::default(),
            counters: CommitCounters::default(),
        };
        // The new epoch of deliveries is durable before the first claim, and the identity before it is read.
        inner.commit_once(SyncMode::Now)?;
        Ok((inner, found))
    }
}

/// The delivery number after which an opening starts.
fn next_epoch(last: u64) -> u64 {
    if planted!("bug-16") {
        return last;
    }
    ((last >> EPOCH_BITS) + 1) << EPOCH_BITS
}

/// The files of a directory, classified by their heads.
#[derive(Debug)]
pub(crate) struct StoreOpening<'a> {
    pub(crate) disk: &'a dyn Disk,
    options: Options,
    /// By segment number in the head.
    pub(crate) segments: BTreeMap<u64, SegmentCandidate>,
    /// Spare files.
    pub(crate) spare: Vec<SegmentCandidate>,
    /// Files without a valid head.
    unknown: Vec<(u64, FileKind, Arc<dyn DiskFile>)>,
    pub(crate) next_name: u64,
}

impl<'a> StoreOpening<'a> {
    fn read_files(disk: &'a dyn Disk, options: &Options) -> Result<Self, Error> {
        let names = disk.list().map_err(unavailable)?;
        backup::check_mark(disk, &names)?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
        let strange = |name: &&String| segment::number(name).is_none() && !is_hint(name);
        if let Some(name) = names.iter().filter(strange).min().filter(|_| numbers.is_empty()) {
            let what = format!("found `{name}`, but no log files of a store");
            return Err(Error::Foreign { what });
        }
        let next_name = numbers.iter().max().map_or(1, |n| n + 1);
        let (segments, spare, unknown) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut opening =
            Self { disk, options: options.clone(), segments, spare, unknown, next_name };
        for name in numbers {
            opening.add(name)?;
        }
        Ok(opening)
    }

    fn add(&mut self, name: u64) -> Result<(), Error> {
        let file = self.disk.open(&segment::name(name), OpenMode::Existing).map_err(unavailable)?;
        let mut bytes = [0; HEAD_BYTES];
        let n = file.read(0, &mut bytes).map_err(unavailable)?;
        match FileKind::of(bytes.get(..n).unwrap_or_default()) {
            FileKind::Segment(head) => {
                let seed = self.seed().unwrap_or(head.seed);
                if seed != head.seed {
                    let what = format!("`{}` belongs to another store", segment::name(name));
                    return Err(Error::Foreign { what });
                }
                if head.segment == segment::SPARE {
                    self.spare.push(SegmentCandidate { name, file, head });
                    return Ok(());
                }
                if let Some(other) =
                    self.segments.insert(head.segment, SegmentCandidate { name, file, head })
                {
                    let what = format!("`{}` has the same segment", segment::name(other.name));
                    return Err(corrupt(name, 0, &what));
                }
            }
            FileKind::Newer(version) => {
                let what = format!(
                    "`{}` has format version {version}, but this crore reads version {}",
                    segment::name(name),
                    segment::VERSION
                );
                return Err(Error::Foreign { what });
            }
            // The head is written after the whole file.
            FileKind::Unknown if n < HEAD_BYTES => return Err(corrupt(name, n as u64, TRUNCATED)),
            kind @ (FileKind::Blank | FileKind::Unknown) => self.unknown.push((name, kind, file)),
        }
        Ok(())
    }

    fn seed(&self) -> Option<u64> {
        self.segments.values().next().map(|candidate| candidate.head.seed)
    }

    /// Checks files without a valid head. Such a file is harmless if it has no durable frame newer
    /// than `last`: a crash interrupted writing its head, or an earlier opening wiped it together
    /// with unfinished commits.
    pub(crate) fn check_unknown(&self, seed: u64, oldest: u64, last: u64) -> Result<(), Error> {
        for (name, kind, file) in &self.unknown {
            let bytes = scan::read_all(&**file).map_err(unavailable)?;
            let rest = bytes.get(HEAD_BYTES..).unwrap_or_default();
            let counts = scan::newest_synced(rest, seed, oldest)
                .is_some_and(|synced| *kind == FileKind::Unknown || synced > last);
            if counts {
                return Err(corrupt(*name, 0, "its head is damaged"));
            }
        }
        Ok(())
    }

    /// Without any segment there is no store, unless a file has data.
    fn check_new(&self) -> Result<(), Error> {
        if let Some(spare) = self.spare.first() {
            return Err(corrupt(spare.name, 0, "a spare file without any segment"));
        }
        for (name, _, file) in &self.unknown {
            let bytes = scan::read_all(&**file).map_err(unavailable)?;
            if bytes.iter().skip(HEAD_BYTES).any(|byte| *byte != 0) {
                return Err(corrupt(*name, 0, "its head is damaged"));
            }
        }
        Ok(())
    }

    /// Creates a new store.
    fn create(mut self, seed: u64) -> Result<Recovered, Error> {
        self.check_new()?;
        self.remove_incomplete()?;
        let size = segment::size(1, self.options.segment_bytes);
        let name = self.next_name;
        let head = SegmentHead { segment: 1, seed, size };
        let segment = make_segment(self.disk, (name, head), |_| AfterPart::Continue(0))
            .map_err(unavailable)?;
        let mut log = Log::new(seed, PendingCommit::new(1, 1, HEAD_BYTES as u64));
        log.next_name = name + 1;
        log.segments.insert(1, segment);
        let found = OpenReport { segments: 1, ..OpenReport::default() };
        Ok(Recovered {
            local: LocalIndex::with(log),
            numbers: Meta::default(),
            last: Time::ZERO,
            found,
        })
    }

    /// Removes files whose creation was interrupted.
    pub(crate) fn remove_incomplete(&mut self) -> Result<(), Error> {
        for (name, ..) in self.unknown.drain(..) {
            self.disk.remove(&segment::name(name)).map_err(unavailable)?;
        }
        Ok(())
    }
}

pub(crate) fn unavailable(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return Error::Full { what: error.to_string() };
    }
    Error::Unavailable(Box::new(error))
}

/// Damage at an offset of a file.
pub(crate) fn corrupt(name: u64, at: u64, what: &str) -> Error {
    Error::Corrupt { what: format!("`{}`, offset {at}: {what}", segment::name(name)) }
}

fn is_hint(name: &str) -> bool {
    name.starts_with(HINT)
}

const HINT: &str = "hint-";

/// Name of a segment's hint file.
pub(crate) fn hint_name(segment: u32) -> String {
    format!("{HINT}{segment:08}")
}
