//! Builds the index from the segments in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::id::JobMap;
use crore_core::{IndexKey, State, Time};

use super::codec::Damaged;
use super::disk::{Disk, DiskFile, OpenMode};
use super::frame::{FrameHeader, HEADER_BYTES};
use super::hint::{Hint, HintItem, HintSummary, is_outdated};
use super::log::{JobRow, Log};
use super::log_files::{FreedFile, Segment};
use super::pending_commit::PendingCommit;
use super::record::{LogRecord, Meta};
use super::recover::{
    OpenReport, SegmentCandidate, StoreOpening, TRUNCATED, corrupt, hint_name, unavailable,
};
use super::scan::{self, LaterFrame};
use super::segment;
use super::side;
use crate::Error;
use crate::bug::planted;
use crate::local::{IndexPosition, LocalIndex, RunSlot, SideKey, SideValue};

/// A segment in use, and its summary.
struct RecoveredSegment {
    segment: u32,
    name: u64,
    file: Arc<dyn DiskFile>,
    summary: HintSummary,
    /// Its hint, if it was built in memory because no hint file exists.
    hint: Option<Vec<u8>>,
    /// The bytes behind its last good frame; empty if the segment was read from its hint file.
    remainder: SegmentRemainder,
}

/// The bytes behind the last good frame of a segment.
#[derive(Default)]
struct SegmentRemainder {
    stop: Option<Damaged>,
    later: Vec<LaterFrame>,
    /// These bytes read as a frame header, which may be left from an earlier use of the file.
    header: Option<FrameHeader>,
}

/// Result of a recovery.
pub(crate) struct Recovered {
    pub(crate) local: LocalIndex<Log>,
    pub(crate) numbers: Meta,
    pub(crate) last: Time,
    pub(crate) found: OpenReport,
}

impl StoreOpening<'_> {
    pub(crate) fn recover(mut self, seed: u64) -> Result<Recovered, Error> {
        let (mut segments, spare) = self.read_segments(seed)?;
        let oldest = segments.first().map_or(0, |first| first.segment.into());
        let (unfinished, next) = self.cut_unfinished(&mut segments)?;
        self.check_unknown(seed, oldest, segments.last().map_or(0, |newest| newest.summary.last))?;
        rewrite_unproven(&segments).map_err(unavailable)?;
        let newest = segments.last().ok_or_else(|| corrupt(0, 0, "no segment has a commit"))?;
        let HintSummary { last, at, end, .. } = newest.summary;
        let mut local =
            LocalIndex::with(Log::new(seed, PendingCommit::new(last + 1, newest.segment, end)));
        let numbers = replay(&mut local, &segments, self.disk, seed)?;
        let found = OpenReport { segments: segments.len(), commit: last, unfinished };
        let rolls = newest.hint.is_none();
        let log = local.records_mut();
        log.next_name = self.next_name;
        log.next = next;
        log.freed = spare.into();
        // A segment with a hint is complete; the log continues in the next one.
        if rolls {
            log.roll();
        }
        self.remove_incomplete()?;
        Ok(Recovered { local, numbers, last: Time::from_millis(at), found })
    }

    /// Returns the segments in use, oldest first, and the files of released ones.
    fn read_segments(
        &mut self,
        seed: u64,
    ) -> Result<(Vec<RecoveredSegment>, Vec<FreedFile>), Error> {
        let mut segments = Vec::<RecoveredSegment>::new();
        let spare = std::mem::take(&mut self.spare).into_iter().map(SegmentCandidate::freed);
        let mut spare: Vec<FreedFile> = spare.collect::<Result<_, _>>()?;
        let mut oldest = 0;
        for candidate in std::mem::take(&mut self.segments).into_values().rev() {
            if candidate.head.segment < oldest {
                spare.push(candidate.freed()?);
                continue;
            }
            let one = self.read(candidate, seed)?;
            if oldest == 0 && one.summary.last > 0 {
                oldest = one.summary.oldest;
            }
            segments.push(one);
        }
        segments.reverse();
        let expected = segments.first().map_or(0, |first| first.segment).max(oldest as u32);
        for (number, one) in (expected..).zip(&segments) {
            if one.segment != number {
                return Err(corrupt(
                    one.name,
                    0,
                    &format!("the file of segment {number} is missing"),
                ));
            }
        }
        if u64::from(segments.first().map_or(0, |first| first.segment)) > oldest && oldest > 0 {
            let what = format!("the file of segment {oldest} is missing");
            return Err(corrupt(segments.first().map_or(0, |first| first.name), 0, &what));
        }
        Ok((segments, spare))
    }

    fn read(&self, candidate: SegmentCandidate, seed: u64) -> Result<RecoveredSegment, Error> {
        let SegmentCandidate { name, file, head } = candidate;
        let segment = u32::try_from(head.segment)
            .map_err(|_| corrupt(name, 16, "segment number out of range"))?;
        let size = scan::size(&*file).map_err(unavailable)?;
        if size < head.size {
            return Err(corrupt(name, size, TRUNCATED));
        }
        let known = read_hint(self.disk, segment)?;
        if known.as_ref().is_some_and(|bytes| is_outdated(bytes)) {
            // The version of crore that wrote it would trust it, although the segment may grow before it gets a new one.
            drop_hint(self.disk, segment)?;
        } else if let Some(bytes) = known
            && let Ok(hint) = Hint::read(&bytes, segment, seed)
            && hint.summary.end <= size
        {
            let summary = hint.summary;
            let remainder = SegmentRemainder::default();
            return Ok(RecoveredSegment { segment, name, file, summary, hint: None, remainder });
        }
        let bytes = scan::read_all(&*file).map_err(unavailable)?;
        let scan = scan::scan(&bytes, segment, seed);
        let scan = scan.map_err(|(at, damaged)| corrupt(name, at, damaged.0))?;
        let header = scan::header(&bytes, scan.end);
        let remainder = SegmentRemainder { stop: Some(scan.stop), later: scan.later, header };
        let hint = scan.gathered.finish(seed, scan.end);
        let summary = Hint::read(&hint, segment, seed).map(|hint| hint.summary);
        let summary = summary.map_err(|damaged| corrupt(name, 0, damaged.0))?;
        Ok(RecoveredSegment { segment, name, file, summary, hint: Some(hint), remainder })
    }

    /// Ends the log at its last consecutive commit and wipes the unfinished ones behind it. If any
    /// of those shows that a missing commit was durable, the store is damaged.
    fn cut_unfinished(
        &self,
        segments: &mut Vec<RecoveredSegment>,
    ) -> Result<(Option<String>, Option<Segment>), Error> {
        let whole = (1..segments.len()).take_while(|nth| follows(segments, *nth)).count() + 1;
        let rest = segments.split_off(whole.min(segments.len()));
        let Some(end) = segments.last() else { return Ok((None, None)) };
        let missing = end.summary.last + 1;
        let newest = rest
            .iter()
            .map(RecoveredSegment::newest_synced)
            .chain([end.remainder.newest_synced()])
            .max();
        if newest.flatten().is_some_and(|synced| synced >= missing) {
            let stop = end.remainder.stop.map_or("no frame", |stop| stop.0);
            let what = format!("{stop} in place of commit {missing}, but later commits exist");
            return Err(corrupt(end.name, end.summary.end, &what));
        }
        let mut unfinished =
            std::iter::once(end).chain(&rest).filter(|one| one.has_unfinished(missing));
        let unfinished = unfinished.next().map(|one| {
            format!("`{}`, offset {}: commit {missing}", segment::name(one.name), one.summary.end)
        });
        end.wipe_discarded(missing).map_err(unavailable)?;
        let mut next = None;
        for one in rest {
            if one.summary.last == 0 && one.segment == end.segment + 1 {
                one.rewrite_head().map_err(unavailable)?;
                one.wipe_discarded(missing).map_err(unavailable)?;
                next = Some(one.segment()?);
            } else {
                one.file.write(0, &[0; segment::HEAD_BYTES]).map_err(unavailable)?;
                one.file.sync().map_err(unavailable)?;
                self.disk.remove(&segment::name(one.name)).map_err(unavailable)?;
            }
        }
        // A hint is written only after the log has continued in the next segment.
        if end.hint.is_none() && next.is_none() {
            let what = format!("the file of segment {} is missing", end.segment + 1);
            return Err(corrupt(end.name, end.summary.end, &what));
        }
        Ok((unfinished, next))
    }
}

/// Rewrites frames that no later commit proves durable. After a failed sync the page cache may hold
/// bytes that read as clean but never reached the disk; a second sync does nothing for them, and a
/// power failure would then remove commits that later ones build on.
fn rewrite_unproven(segments: &[RecoveredSegment]) -> std::io::Result<()> {
    let synced = segments.last().map_or(0, |newest| newest.summary.synced);
    let doubtful = |one: &&RecoveredSegment| one.hint.is_some() && one.summary.last > synced;
    for one in segments.iter().filter(doubtful) {
        let bytes = scan::read_all(&*one.file)?;
        let bytes = bytes.get(..one.summary.end as usize).unwrap_or(&bytes);
        let mut at = segment::HEAD_BYTES;
        while let Ok((_, header)) = FrameHeader::read(bytes.get(at..).unwrap_or_default())
            && header.commit <= synced
        {
            at = at.saturating_add(header.stride() as usize);
        }
        // If the first frame is in doubt, so is the head.
        let at = if at == segment::HEAD_BYTES { 0 } else { at };
        one.file.write(at as u64, bytes.get(at..).unwrap_or_default())?;
        one.file.sync()?;
    }
    Ok(())
}

/// Whether a segment's commits continue those of the previous segment.
fn follows(segments: &[RecoveredSegment], nth: usize) -> bool {
    let (Some(before), Some(one)) = (segments.get(nth - 1), segments.get(nth)) else {
        return false;
    };
    one.summary.last > 0
        && one.summary.first == before.summary.last + 1
        && before.remainder.is_clean()
}

impl SegmentRemainder {
    fn newest_synced(&self) -> Option<u64> {
        self.later.iter().map(|later| later.header.synced).max()
    }

    const fn is_clean(&self) -> bool {
        self.later.is_empty()
    }

    /// Whether the bytes begin like a frame of this segment or this commit. A single flipped bit
    /// cannot hide both.
    fn is_torn(&self, segment: u32, commit: u64) -> bool {
        let segment = u64::from(segment);
        let ours = |header: &FrameHeader| header.segment == segment || header.commit == commit;
        self.header.as_ref().is_some_and(ours)
    }
}

impl RecoveredSegment {
    /// Whether there are bytes of unfinished commits, from `missing` on, behind the good frames.
    fn has_unfinished(&self, missing: u64) -> bool {
        self.summary.last >= missing
            || !self.remainder.is_clean()
            || self.remainder.is_torn(self.segment, missing)
    }

    /// The newest commit that a commit in this segment proves durable.
    fn newest_synced(&self) -> Option<u64> {
        if self.hint.is_none() {
            return Some(u64::MAX);
        }
        let good = (self.summary.last > 0).then_some(self.summary.synced);
        good.max(self.remainder.newest_synced())
    }

    /// Rewrites the head for the same reason as [`rewrite_unproven`]: frames behind it do not make
    /// it durable.
    fn rewrite_head(&self) -> std::io::Result<()> {
        let mut head = [0; segment::HEAD_BYTES];
        self.file.read(0, &mut head)?;
        self.file.write(0, &head)?;
        self.file.sync()
    }

    /// Wipes the headers of discarded frames, so that they never count later.
    fn wipe_discarded(&self, missing: u64) -> std::io::Result<()> {
        let torn = self.remainder.is_torn(self.segment, missing).then_some(self.summary.end);
        let later = self.remainder.later.iter().map(|later| later.at);
        let all: Vec<u64> = torn.into_iter().chain(later).collect();
        for at in &all {
            self.file.write(*at, &[0; HEADER_BYTES])?;
        }
        if all.is_empty() { Ok(()) } else { self.file.sync() }
    }

    fn segment(&self) -> Result<Segment, Error> {
        let size = scan::size(&*self.file).map_err(unavailable)?;
        let (name, hinted) = (self.name, self.hint.is_none());
        let HintSummary { end, last, .. } = self.summary;
        Ok(Segment {
            name,
            file: Arc::clone(&self.file),
            size,
            end,
            live: 0,
            sides: 0,
            last,
            hinted,
        })
    }
}

/// Reads a segment's hint, if there is one.
pub(crate) fn read_hint(disk: &dyn Disk, segment: u32) -> Result<Option<Vec<u8>>, Error> {
    match disk.open(&hint_name(segment), OpenMode::Existing) {
        Ok(file) => scan::read_all(&*file).map(Some).map_err(unavailable),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unavailable(error)),
    }
}

/// Removes a hint durably: a power failure does not bring it back.
pub(crate) fn drop_hint(disk: &dyn Disk, segment: u32) -> Result<(), Error> {
    let name = hint_name(segment);
    let file = disk.open(&name, OpenMode::Create).map_err(unavailable)?;
    file.write(0, &[0; segment::HEAD_BYTES]).map_err(unavailable)?;
    file.sync().map_err(unavailable)?;
    disk.remove(&name).map_err(unavailable)
}

/// Restores everything in the segments into the index, and returns the last allocated numbers.
///
/// The first pass finds the newest record of every key, the second restores the jobs; memory
/// between the passes is limited to what the index keeps anyway.
fn replay(
    local: &mut LocalIndex<Log>,
    segments: &[RecoveredSegment],
    disk: &dyn Disk,
    seed: u64,
) -> Result<Meta, Error> {
    let mut numbers = Meta::default();
    let mut sides: BTreeMap<SideKey, Option<SideValue>> = BTreeMap::new();
    for one in segments {
        local.records_mut().segments.insert(one.segment, one.segment()?);
        let mut n = 0;
        with_hint(one, disk, seed, |hint| {
            numbers = numbers.max_each(hint.summary.meta);
            let lanes = local.restore_lanes(&hint.lanes);
            hint.walk(
                |item| note_newest(local, item, &lanes),
                |body| {
                    n += 1;
                    collect_side(&mut sides, body)
                },
            )
        })?;
        local.records_mut().segments.entry(one.segment).and_modify(|segment| segment.sides = n);
    }
    let mut earlier = JobMap::default();
    for one in segments {
        with_hint(one, disk, seed, |hint| {
            hint.walk(|item| restore_job(local, item, &mut earlier), |_| Ok(()))
        })?;
    }
    for (key, value) in sides {
        // Records of a removed job are dropped.
        let of_job = match key {
            SideKey::Progress(id) | SideKey::Line(id, _) | SideKey::EventWait(id) => Some(id),
            _ => None,
        };
        let is_left = of_job.is_some_and(|id| local.records().rows.get(id).is_none());
        if let Some(value) = value.filter(|_| !is_left) {
            local.restore(key, value);
        }
    }
    local.finish_restore();
    local.take_touched();
    local.take_woken();
    Ok(numbers)
}

/// Why reading a hint stopped.
struct HintError(&'static str);

impl From<Damaged> for HintError {
    fn from(damaged: Damaged) -> Self {
        Self(damaged.0)
    }
}

fn with_hint(
    one: &RecoveredSegment,
    disk: &dyn Disk,
    seed: u64,
    walk: impl FnOnce(&Hint<'_>) -> Result<(), HintError>,
) -> Result<(), Error> {
    let read;
    let bytes = match &one.hint {
        Some(bytes) => bytes,
        None => {
            read = read_hint(disk, one.segment)?.unwrap_or_default();
            &read
        }
    };
    let hint = Hint::read(bytes, one.segment, seed).map_err(|e| corrupt(one.name, 0, e.0))?;
    walk(&hint).map_err(|stop| corrupt(one.name, 0, stop.0))
}

/// Records the location of a job's newest record, up to this segment.
fn note_newest(
    local: &mut LocalIndex<Log>,
    item: HintItem,
    lanes: &[u32],
) -> Result<(), HintError> {
    let rows = &mut local.records_mut().rows;
    let Some(job) = item.job else {
        if !planted!("bug-15") {
            rows.remove(item.id);
            local.restore_costs(item.id, None);
        }
        return Ok(());
    };
    // Without a lane, the put record and its costs are in an earlier segment.
    if job.lane.is_some() && !planted!("bug-59") {
        local.restore_costs(item.id, job.costs.as_ref());
    }
    let rows = &mut local.records_mut().rows;
    let lane = match job.lane {
        Some(nth) => lanes.get(nth as usize).copied(),
        None => rows.get(item.id).map(|row| row.lane()),
    };
    // A job without its put record cannot be restored; a repair may have had to drop the record.
    let Some(lane) = lane else {
        rows.remove(item.id);
        return Ok(());
    };
    rows.insert(item.id, JobRow::new(job.location, lane));
    Ok(())
}

/// Restores a job into the index if this is its newest record. `earlier` has the index keys of jobs whose newest record
/// is in a later segment than their put record.
fn restore_job(
    local: &mut LocalIndex<Log>,
    item: HintItem,
    earlier: &mut JobMap<Arc<[IndexKey]>>,
) -> Result<(), HintError> {
    let log = local.records_mut();
    let (Some(job), Some(row)) = (item.job, log.rows.get(item.id).copied()) else { return Ok(()) };
    let keys = match job.lane {
        Some(_) => job.keys,
        None => earlier.remove(&item.id).unwrap_or_default(),
    };
    if row.location != job.location {
        if keys.is_empty() {
            earlier.remove(&item.id);
        } else {
            earlier.insert(item.id, keys);
        }
    } else {
        log.count(job.location, 1);
        if job.base != job.location {
            log.count(job.base, 1);
        }
        let position = IndexPosition {
            lane: row.lane(),
            state: job.state,
            broken: job.broken,
            priority: job.priority,
            slot: RunSlot { at: job.at, id: item.id },
            lease_until: job.lease_until,
            result_until: job.result_until,
            deadline: job.deadline.filter(|_| !planted!("bug-43")),
        };
        let keys: Vec<IndexKey> = keys.iter().copied().chain(job.error).collect();
        local.restore_job(position, &keys);
        if job.state != State::Ready {
            local.restore_costs(item.id, None);
        }
    }
    if let Some(client) = job.client {
        local.restore_client(&client, item.id);
    }
    Ok(())
}

fn collect_side(
    sides: &mut BTreeMap<SideKey, Option<SideValue>>,
    body: &[u8],
) -> Result<(), HintError> {
    if let LogRecord::Side { key, value } = LogRecord::read(body)? {
        let value = side::get_value(&key, value)?;
        sides.insert(key, value);
    }
    Ok(())
}
