//! Rebuilding damaged frames in place. A good record keeps its offset, since other records refer to
//! it; a bad one becomes a hole of the same length.

use std::collections::BTreeMap;
use std::ops::Range;

use crore_core::JobId;

use super::contents::check_record;
use crate::embedded::codec::ByteReader;
use crate::embedded::frame::{self, FrameHeader, HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::embedded::record::{self, Hole};
use crate::embedded::scan;

/// Length of the shortest frame with a record.
pub(super) const MIN_FRAME_BYTES: u64 = 64;
/// Length of a frame with a hole that has space for all its numbers.
pub(super) const HOLE_FRAME_BYTES: u64 = 112;

/// The header and the hole of a rebuilt frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameTemplate {
    pub(super) seed: u64,
    pub(super) segment: u32,
    pub(super) commit: u64,
    /// The header of a good frame nearby; a rebuilt frame claims nothing newer.
    pub(super) like: FrameHeader,
    pub(super) hole: Hole,
}

/// Replacement of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replacement {
    Hole,
    Gone(JobId),
}

/// A rebuilt frame.
#[derive(Debug)]
pub(super) struct RebuiltFrame {
    pub(super) bytes: Vec<u8>,
    /// Number of records that are kept, and of those that are lost.
    pub(super) kept: usize,
    pub(super) lost: usize,
    /// The jobs that the lost records may belong to.
    pub(super) jobs: Vec<JobId>,
}

impl FrameTemplate {
    /// The same template for another commit.
    pub(super) const fn at(self, commit: u64) -> Self {
        Self { commit, ..self }
    }

    fn frame(&self, commit: u64, records: &[u8], sum: u32) -> Vec<u8> {
        let FrameHeader { synced, oldest, at, .. } = self.like;
        let len = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let synced = synced.min(commit.saturating_sub(1));
        let header = FrameHeader { len, segment: self.segment.into(), commit, synced, oldest, at };
        let mut out = header.bytes(self.seed, sum);
        out.extend_from_slice(records);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    /// A frame of `len` bytes, at least [`MIN_FRAME_BYTES`], with only a hole for commits up to
    /// `last`.
    pub(super) fn filler(&self, len: u64, last: u64) -> Vec<u8> {
        let hole = Hole { commits: Some((self.commit, last)), ..self.hole };
        let body = (len as usize).saturating_sub(HEADER_BYTES + RECORD_HEADER_BYTES);
        let (mut records, mut sum) = (Vec::with_capacity(len as usize), 0);
        frame::append(&mut records, &mut sum, |out| record::put_hole(hole, body, out));
        self.frame(self.commit, &records, sum)
    }

    /// Rebuilds the frame that should begin with these bytes; `None` if no record can be kept. With
    /// `is_whole`, the next good frame begins after them.
    ///
    /// A record is kept only if its own checksum is correct and its frame names the segment or the
    /// commit; remains of an earlier use of the file name neither.
    pub(super) fn salvage(&self, bytes: &[u8], is_whole: bool) -> Option<RebuiltFrame> {
        let (_, header) = FrameHeader::read(bytes).ok()?;
        if header.segment != u64::from(self.segment) && header.commit != self.commit {
            return None;
        }
        let parts = self.parts(bytes, header, is_whole);
        let end = parts.last().map_or(HEADER_BYTES, |(range, _)| range.end);
        let kept = parts.iter().filter(|(_, is_good)| *is_good).count();
        if kept == 0 {
            return None;
        }
        let bad = parts.iter().filter(|(_, is_good)| !is_good);
        let replacements = bad.map(|(range, _)| (range.start, Replacement::Hole)).collect();
        let ranges: Vec<_> = parts.into_iter().map(|(range, _)| range).collect();
        self.rebuild(bytes.get(..end)?, &ranges, &replacements)
    }

    /// The jobs that a frame without any good record seems to belong to.
    pub(super) fn suspects(&self, bytes: &[u8], is_whole: bool) -> Vec<JobId> {
        let Ok((_, header)) = FrameHeader::read(bytes) else { return Vec::new() };
        let parts = self.parts(bytes, header, is_whole).into_iter();
        parts
            .filter_map(|(range, _)| self.job_of(bytes.get(range)?.get(RECORD_HEADER_BYTES..)?))
            .collect()
    }

    /// The job that a damaged record seems to belong to.
    fn job_of(&self, body: &[u8]) -> Option<JobId> {
        let mut reader = ByteReader::new(body);
        let kind = reader.u8().ok().filter(|kind| (1..=3).contains(kind));
        let id = kind.and_then(|_| reader.var().ok())?;
        (1..=self.hole.meta.last_id).contains(&id).then_some(JobId(id))
    }

    /// The records of a damaged frame, and whether each is good. The length in its header is
    /// trusted if the bytes after it agree, or, without bytes after it, if the rest of the header
    /// is right and its records do not continue.
    fn parts(
        &self,
        bytes: &[u8],
        header: FrameHeader,
        is_whole: bool,
    ) -> Vec<(Range<usize>, bool)> {
        let end = HEADER_BYTES + header.len as usize;
        let next = frame::padded(end as u64);
        let is_end = is_whole && next == bytes.len() as u64
            || scan::names_segment(bytes, next, self.segment);
        let found = parts(bytes, is_end.then_some(end), is_whole);
        let found_end = found.last().map_or(HEADER_BYTES, |(range, _)| range.end);
        let is_right = header.segment == u64::from(self.segment) && header.commit == self.commit;
        if !is_whole && !is_end && is_right && (found_end + 1..=bytes.len()).contains(&end) {
            return parts(bytes, Some(end), is_whole);
        }
        found
    }

    /// Rebuilds a good frame with some of its records replaced, by their offset.
    pub(super) fn replace(
        &self,
        bytes: &[u8],
        replacements: &BTreeMap<usize, Replacement>,
    ) -> Option<RebuiltFrame> {
        let all = bytes.get(HEADER_BYTES..)?;
        let ranges: Option<Vec<_>> = frame::records(all)
            .map(|(at, raw)| {
                Some(HEADER_BYTES + at..HEADER_BYTES + at + RECORD_HEADER_BYTES + raw.ok()?.1.len())
            })
            .collect();
        self.rebuild(bytes, &ranges?, replacements)
    }

    fn rebuild(
        &self,
        bytes: &[u8],
        ranges: &[Range<usize>],
        replacements: &BTreeMap<usize, Replacement>,
    ) -> Option<RebuiltFrame> {
        let (mut records, mut sum) = (Vec::with_capacity(bytes.len()), 0);
        let (mut kept, mut jobs) = (0, Vec::new());
        for range in ranges {
            let body = bytes
                .get(range.start + RECORD_HEADER_BYTES..range.end)
                .filter(|body| !body.is_empty())?;
            let len = body.len();
            match replacements.get(&range.start) {
                None => kept += 1,
                Some(_) => jobs.extend(self.job_of(body)),
            }
            frame::append(&mut records, &mut sum, |out| match replacements.get(&range.start) {
                None => out.extend_from_slice(body),
                Some(Replacement::Hole) => record::put_hole(self.hole, len, out),
                Some(Replacement::Gone(id)) => record::put_gone_long(*id, len, out),
            });
        }
        let bytes = self.frame(self.commit, &records, sum);
        Some(RebuiltFrame { bytes, kept, lost: ranges.len() - kept, jobs })
    }
}

/// The records of a damaged frame in order, and whether each is good. `end` is where they end, if
/// known.
fn parts(bytes: &[u8], end: Option<usize>, is_whole: bool) -> Vec<(Range<usize>, bool)> {
    let mut parts = Vec::new();
    let mut at = HEADER_BYTES;
    let most = end.unwrap_or(bytes.len());
    while at < most {
        let len = stored_len(bytes, at).map(|len| at + RECORD_HEADER_BYTES + len);
        let next = len.filter(|next| *next <= most);
        if let Some(next) = next.filter(|next| is_good(bytes, at..*next)) {
            parts.push((at..next, true));
            at = next;
        } else if is_whole && end.is_none() && is_padding(bytes, at) {
            break;
        } else if let Some(next) = next.filter(|next| end == Some(*next) || starts(bytes, *next)) {
            parts.push((at..next, false));
            at = next;
        } else {
            // Its length is unknown, so the next record cannot be found.
            if is_whole || end.is_some() {
                parts.push((at..most, false));
            }
            break;
        }
    }
    parts
}

fn stored_len(bytes: &[u8], at: usize) -> Option<usize> {
    let len =
        bytes.get(at + 4..at + RECORD_HEADER_BYTES)?.try_into().ok().map(u32::from_le_bytes)?;
    (len > 0).then_some(len as usize)
}

fn is_good(bytes: &[u8], range: Range<usize>) -> bool {
    let body = bytes.get(range).map(frame::body);
    body.is_some_and(|body| body.is_ok_and(|body| check_record(body).is_ok()))
}

/// Whether a good record begins there.
fn starts(bytes: &[u8], at: usize) -> bool {
    stored_len(bytes, at).is_some_and(|len| is_good(bytes, at..at + RECORD_HEADER_BYTES + len))
}

/// Whether only the padding of the frame is left.
fn is_padding(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.len() < 8 && rest.iter().all(|byte| *byte == 0))
}
