//! The files of a closed store, read as far as possible. `verify`, `repair` and `show` begin here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Error;
use crate::embedded::backup;
use crate::embedded::disk::{Disk, DiskFile, OpenMode};
use crate::embedded::frame::{self, FrameHeader, HEADER_BYTES};
use crate::embedded::hint::Hint;
use crate::embedded::record::LogRecord;
use crate::embedded::recover::{corrupt, unavailable};
use crate::embedded::replay::read_hint;
use crate::embedded::scan;
use crate::embedded::segment::{self, FileKind, HEAD_BYTES, SegmentHead};

/// Upper bound of format versions: a head with a larger one is damaged.
const LAST_VERSION: u32 = 1000;

/// All files, damaged or not.
#[derive(Debug)]
pub(super) struct StoreFiles {
    /// Names of all files, sorted.
    pub(super) names: Vec<String>,
    pub(super) seed: u64,
    /// All segments, including those before `oldest`.
    pub(super) segments: BTreeMap<u32, SegmentFile>,
    /// Files that do not belong to the store; it cannot be opened with them.
    pub(super) foreign: Vec<ForeignFile>,
    /// Log files without any frame in use; the next opening removes them.
    pub(super) unused: Vec<u64>,
    /// The oldest segment in use.
    pub(super) oldest: u32,
    /// The newest commit that any frame or hint proves durable.
    pub(super) last_synced: u64,
}

/// A file with a name of the log that does not belong to the store.
#[derive(Debug)]
pub(super) struct ForeignFile {
    pub(super) name: u64,
    pub(super) what: String,
}

/// A segment, as far as it can be read.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) name: u64,
    pub(super) file: Arc<dyn DiskFile>,
    /// Whether its head is valid and the file is not truncated.
    pub(super) has_head: bool,
    pub(super) size: u64,
    /// Its good frames, with increasing commits.
    pub(super) frames: Vec<Frame>,
    /// Why there is no frame at an offset.
    pub(super) stops: BTreeMap<u64, &'static str>,
    /// Whether the bytes after the last good frame begin like a frame of this segment.
    pub(super) is_torn: bool,
}

/// A good frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) header: FrameHeader,
    /// The last commit that it covers: its own, unless it has a hole.
    pub(super) last: u64,
}

/// A file of the log before it is classified.
struct LogFile {
    name: u64,
    file: Arc<dyn DiskFile>,
    kind: FileKind,
    head: [u8; HEAD_BYTES],
}

impl StoreFiles {
    pub(super) fn read(disk: &dyn Disk) -> Result<Self, Error> {
        let mut names = disk.list().map_err(unavailable)?;
        names.sort();
        backup::check_mark(disk, &names)?;
        let numbers = names.iter().filter_map(|name| segment::number(name));
        let found: Result<Vec<_>, _> = numbers.map(|name| LogFile::read(disk, name)).collect();
        let found = found?;
        if found.is_empty() {
            let first = names.first().map(|name| format!("found `{name}`, but "));
            let what = format!("{}no log files of a store", first.unwrap_or_default());
            return Err(Error::Foreign { what });
        }
        let seed = seed(disk, &names, &found)?;
        let (segments, foreign, unused) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut files = Self { names, seed, segments, foreign, unused, oldest: 0, last_synced: 0 };
        let headless = files.add_segments(found)?;
        files.find_oldest(disk)?;
        files.add_headless(headless)?;
        files.find_oldest(disk)?;
        Ok(files)
    }

    /// Adds the files with a valid head, and returns the others.
    fn add_segments(&mut self, found: Vec<LogFile>) -> Result<Vec<LogFile>, Error> {
        let mut rest = Vec::new();
        for one in found {
            match one.kind {
                FileKind::Segment(SegmentHead { seed, .. }) if seed != self.seed => {
                    let what = "a segment of another store".to_owned();
                    self.foreign.push(ForeignFile { name: one.name, what });
                }
                FileKind::Segment(SegmentHead { segment: segment::SPARE, .. }) => {
                    self.unused.push(one.name);
                }
                FileKind::Segment(SegmentHead { segment, .. }) => match u32::try_from(segment) {
                    Ok(segment) => self.add(segment, one, true)?,
                    Err(_) => {
                        let what = "a segment whose number is too large".to_owned();
                        self.foreign.push(ForeignFile { name: one.name, what });
                    }
                },
                FileKind::Newer(version) => return Err(newer(one.name, version)),
                FileKind::Blank | FileKind::Unknown => rest.push(one),
            }
        }
        Ok(rest)
    }

    /// Adds files without a valid head: each is the segment that its newest frames name, if that
    /// one is in use.
    fn add_headless(&mut self, found: Vec<LogFile>) -> Result<(), Error> {
        let newest = self.segments.last_key_value().map_or(0, |(segment, _)| *segment);
        let last = self
            .segments
            .values()
            .flat_map(|segment_file| &segment_file.frames)
            .map(|frame| frame.last);
        let last = last.max().unwrap_or_default();
        for one in found {
            let bytes = scan::read_all(&*one.file).map_err(unavailable)?;
            if one.kind == FileKind::Unknown && bytes.len() < HEAD_BYTES {
                let what = "the file is truncated".to_owned();
                self.foreign.push(ForeignFile { name: one.name, what });
                continue;
            }
            let named = newest_named(&bytes, self.seed);
            match (named.filter(|(segment, _)| *segment >= self.oldest), one.kind) {
                // Opening wipes heads behind an unfinished commit, but never durable commits.
                (Some((segment, synced)), FileKind::Blank)
                    if segment > newest && synced <= last =>
                {
                    self.unused.push(one.name);
                }
                (Some((segment, _)), _) => self.add(segment, one, false)?,
                (None, _) => self.unused.push(one.name),
            }
        }
        Ok(())
    }

    fn add(&mut self, segment: u32, found: LogFile, has_head: bool) -> Result<(), Error> {
        let bytes = scan::read_all(&*found.file).map_err(unavailable)?;
        let segment_file = SegmentFile::read(found, &bytes, (segment, self.seed), has_head);
        let Some(other) = self.segments.remove(&segment) else {
            self.segments.insert(segment, segment_file);
            return Ok(());
        };
        let (better, worse) = if segment_file.rank() > other.rank() {
            (segment_file, other)
        } else {
            (other, segment_file)
        };
        let what = format!("a second file of segment {segment}, besides `{}`", better.file_name());
        self.foreign.push(ForeignFile { name: worse.name, what });
        self.segments.insert(segment, better);
        Ok(())
    }

    /// Sets `oldest` and `last_synced` from the newest frame in use.
    fn find_oldest(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        let frames = self.segments.values().flat_map(|segment_file| &segment_file.frames);
        let mut last_synced = frames.map(|frame| frame.header.synced).max().unwrap_or_default();
        for segment in self.segments.keys() {
            if let Some(bytes) = read_hint(disk, *segment)?
                && let Ok(hint) = Hint::read(&bytes, *segment, self.seed)
            {
                last_synced = last_synced.max(hint.summary.last);
            }
        }
        self.last_synced = last_synced;
        let newest = self
            .segments
            .values()
            .rev()
            .find_map(|segment_file| segment_file.last_that_counts(last_synced));
        let oldest = newest.map_or(0, |frame| frame.header.oldest);
        self.oldest = u32::try_from(oldest).unwrap_or(u32::MAX);
        Ok(())
    }
}

impl LogFile {
    fn read(disk: &dyn Disk, name: u64) -> Result<Self, Error> {
        let file = disk.open(&segment::name(name), OpenMode::Existing).map_err(unavailable)?;
        let mut head = [0; HEAD_BYTES];
        let n = file.read(0, &mut head).map_err(unavailable)?;
        let kind = match FileKind::of(head.get(..n).unwrap_or_default()) {
            FileKind::Newer(version) if version > LAST_VERSION => FileKind::Unknown,
            kind => kind,
        };
        Ok(Self { name, file, kind, head })
    }

    /// The seed in a head that may be damaged.
    fn seed(&self) -> u64 {
        let seed = self.head.get(24..32).and_then(|bytes| bytes.try_into().ok());
        seed.map_or(0, u64::from_le_bytes)
    }
}

impl SegmentFile {
    fn read(found: LogFile, bytes: &[u8], (segment, seed): (u32, u64), has_head: bool) -> Self {
        let LogFile { name, file, kind, .. } = found;
        let is_whole = match kind {
            FileKind::Segment(head) => bytes.len() as u64 >= head.size,
            _ => true,
        };
        let has_head = has_head && is_whole;
        let (mut frames, mut stops) = (Vec::<Frame>::new(), BTreeMap::new());
        let (mut at, mut was_good) = (HEAD_BYTES, true);
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
            let next = frames.last().map_or(0, |frame| frame.last.saturating_add(1));
            let stop = match frame::check(rest, seed, segment.into()) {
                Ok(header) if header.commit >= next => {
                    frames.push(Frame::read(rest, at as u64, header));
                    at += header.stride() as usize;
                    was_good = true;
                    continue;
                }
                Ok(_) => "frame out of sequence",
                Err(damaged) => damaged.0,
            };
            if was_good {
                stops.insert(at as u64, stop);
            }
            (at, was_good) = (at + 8, false);
        }
        let end = frames.last().map_or(HEAD_BYTES as u64, |frame| frame.end);
        let is_torn = scan::names_segment(bytes, end, segment);
        Self { name, file, has_head, size: bytes.len() as u64, frames, stops, is_torn }
    }

    pub(super) fn file_name(&self) -> String {
        segment::name(self.name)
    }

    /// The end of its last good frame.
    pub(super) fn end(&self) -> u64 {
        self.frames.last().map_or(HEAD_BYTES as u64, |frame| frame.end)
    }

    /// Rank among files of the same segment; the highest is used.
    fn rank(&self) -> (usize, bool, std::cmp::Reverse<u64>) {
        (self.frames.len(), self.has_head, std::cmp::Reverse(self.name))
    }

    /// The last frame before the first missing commit that was not durable.
    fn last_that_counts(&self, last_synced: u64) -> Option<Frame> {
        let mut last = *self.frames.first()?;
        for frame in self.frames.iter().skip(1) {
            let follows = frame.at == last.end && frame.header.commit == last.last + 1;
            if !follows && last_synced <= last.last {
                break;
            }
            last = *frame;
        }
        Some(last)
    }
}

impl Frame {
    fn read(bytes: &[u8], at: u64, header: FrameHeader) -> Self {
        let all = bytes.get(HEADER_BYTES..HEADER_BYTES + header.len as usize).unwrap_or_default();
        let hole = |body: &[u8]| match LogRecord::read(body) {
            Ok(LogRecord::Hole(hole)) => hole.commits.map(|(_, last)| last),
            _ => None,
        };
        let bodies = frame::records(all).filter_map(|(_, raw)| raw.ok().map(|(_, body)| body));
        let last = bodies.filter_map(hole).max().map_or(header.commit, |n| n.max(header.commit));
        Self { at, end: at + header.stride(), header, last }
    }
}

/// The newest segment named by good frames in these bytes, and the newest commit that they prove
/// durable.
fn newest_named(bytes: &[u8], seed: u64) -> Option<(u32, u64)> {
    let named = |at: usize| {
        let rest = bytes.get(at..)?;
        let (_, header) = FrameHeader::read(rest).ok()?;
        let segment = u32::try_from(header.segment).ok().filter(|segment| *segment > 0)?;
        frame::check(rest, seed, header.segment).ok().map(|header| (segment, header.synced))
    };
    (HEAD_BYTES..bytes.len()).step_by(8).filter_map(named).max()
}

/// The seed of the store: the one in most heads, or one from a damaged head or a hint that the
/// frames confirm.
fn seed(disk: &dyn Disk, names: &[String], found: &[LogFile]) -> Result<u64, Error> {
    let mut counts = BTreeMap::<u64, usize>::new();
    for one in found {
        if let FileKind::Segment(head) = one.kind {
            *counts.entry(head.seed).or_default() += 1;
        }
    }
    if let Some((seed, _)) = counts.iter().max_by_key(|(_, n)| **n) {
        return Ok(*seed);
    }
    let hints = hint_seeds(disk, names)?;
    for one in found {
        let bytes = scan::read_all(&*one.file).map_err(unavailable)?;
        let flipped = (0..64).map(|bit| one.seed() ^ (1 << bit));
        let guesses = hints.iter().copied().chain([one.seed()]).chain(flipped);
        let first = bytes.get(HEAD_BYTES..).unwrap_or_default();
        let fits = |seed: &u64| match FrameHeader::read(first) {
            Ok((_, header)) => frame::check(first, *seed, header.segment).is_ok(),
            Err(_) => false,
        };
        if let Some(seed) = guesses.into_iter().find(fits) {
            return Ok(seed);
        }
        match one.kind {
            FileKind::Newer(version) => return Err(newer(one.name, version)),
            _ if first.iter().all(|byte| *byte == 0) => {}
            _ => {
                let what = "its head is damaged, and its store is unknown";
                return Err(corrupt(one.name, 0, what));
            }
        }
    }
    Ok(0)
}

/// The seeds in hints.
fn hint_seeds(disk: &dyn Disk, names: &[String]) -> Result<Vec<u64>, Error> {
    let mut seeds = Vec::new();
    for segment in names.iter().filter_map(|name| name.strip_prefix("hint-")?.parse().ok()) {
        let bytes = read_hint(disk, segment)?.unwrap_or_default();
        let seed = bytes.get(24..32).and_then(|bytes| bytes.try_into().ok());
        seeds.extend(seed.map(u64::from_le_bytes));
    }
    Ok(seeds)
}

fn newer(name: u64, version: u32) -> Error {
    let what = format!(
        "`{}` has format version {version}, but this crore reads version {}",
        segment::name(name),
        segment::VERSION
    );
    Error::Foreign { what }
}
