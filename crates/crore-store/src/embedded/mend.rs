//! Frames built anew where they stood: what is good stays at its place, since others say where it is,
//! and what is not becomes a hole of the same length.

use std::collections::BTreeMap;
use std::ops::Range;

use crore_core::JobId;

use super::codec::Reader;
use super::examine::check;
use super::frame::{self, HEADER, Header, RECORD};
use super::record::{self, Hole};
use super::scan;

/// The fewest bytes of a frame with a record in it.
pub(crate) const LEAST: u64 = 64;
/// The bytes of a frame with a hole in it that has room for all its numbers.
pub(crate) const ROOMY: u64 = 112;

/// What a frame that is built anew is to say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) seed: u64,
    pub(crate) segment: u32,
    pub(crate) commit: u64,
    /// The header of a good frame nearby: nothing newer is claimed.
    pub(crate) like: Header,
    pub(crate) hole: Hole,
}

/// What stands instead of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Instead {
    Hole,
    Gone(JobId),
}

/// A frame that was built anew.
#[derive(Debug)]
pub(crate) struct Mended {
    pub(crate) bytes: Vec<u8>,
    /// How many records are as they were, and how many are not there any more.
    pub(crate) kept: usize,
    pub(crate) lost: usize,
    /// The jobs that the lost records may have been about.
    pub(crate) jobs: Vec<JobId>,
}

impl Form {
    /// The same for another commit.
    pub(crate) const fn at(self, commit: u64) -> Self {
        Self { commit, ..self }
    }

    fn frame(&self, commit: u64, records: &[u8], sum: u32) -> Vec<u8> {
        let Header { synced, oldest, at, .. } = self.like;
        let len = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let synced = synced.min(commit.saturating_sub(1));
        let header = Header { len, segment: self.segment.into(), commit, synced, oldest, at };
        let mut out = header.bytes(self.seed, sum);
        out.extend_from_slice(records);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    /// A frame of `len` bytes, at least [`LEAST`], that only has a hole for commits up to `last`.
    pub(crate) fn filler(&self, len: u64, last: u64) -> Vec<u8> {
        let hole = Hole { commits: Some((self.commit, last)), ..self.hole };
        let body = (len as usize).saturating_sub(HEADER + RECORD);
        let (mut records, mut sum) = (Vec::with_capacity(len as usize), 0);
        frame::append(&mut records, &mut sum, |out| record::put_hole(hole, body, out));
        self.frame(self.commit, &records, sum)
    }

    /// What can be saved of the frame that should begin with these bytes; `None`: nothing. If
    /// `is_whole`, the next good frame begins behind them.
    ///
    /// Only what its own checksum proves is believed, and only in a frame that names its segment or
    /// its commit: what an earlier use of the file has left says neither.
    pub(crate) fn salvage(&self, bytes: &[u8], is_whole: bool) -> Option<Mended> {
        let (_, header) = Header::read(bytes).ok()?;
        if header.segment != u64::from(self.segment) && header.commit != self.commit {
            return None;
        }
        let parts = self.parts(bytes, header, is_whole);
        let end = parts.last().map_or(HEADER, |(range, _)| range.end);
        let kept = parts.iter().filter(|(_, is_good)| *is_good).count();
        if kept == 0 {
            return None;
        }
        let bad = parts.iter().filter(|(_, is_good)| !is_good);
        let instead = bad.map(|(range, _)| (range.start, Instead::Hole)).collect();
        let ranges: Vec<_> = parts.into_iter().map(|(range, _)| range).collect();
        self.rebuild(bytes.get(..end)?, &ranges, &instead)
    }

    /// The jobs that a frame of which nothing can be kept seems to have been about.
    pub(crate) fn suspects(&self, bytes: &[u8], is_whole: bool) -> Vec<JobId> {
        let Ok((_, header)) = Header::read(bytes) else { return Vec::new() };
        let parts = self.parts(bytes, header, is_whole).into_iter();
        parts.filter_map(|(range, _)| self.job_of(bytes.get(range)?.get(RECORD..)?)).collect()
    }

    /// The job that a damaged record seems to be about.
    fn job_of(&self, body: &[u8]) -> Option<JobId> {
        let mut reader = Reader::new(body);
        let kind = reader.u8().ok().filter(|kind| (1..=3).contains(kind));
        let id = kind.and_then(|_| reader.var().ok())?;
        (1..=self.hole.meta.last_id).contains(&id).then_some(JobId(id))
    }

    /// The records of a damaged frame, and whether each is good. Its length is believed if what stands
    /// behind it agrees; with nothing behind it, if the rest of its header is right and its records
    /// do not go on.
    fn parts(&self, bytes: &[u8], header: Header, is_whole: bool) -> Vec<(Range<usize>, bool)> {
        let end = HEADER + header.len as usize;
        let next = frame::padded(end as u64);
        let is_end = is_whole && next == bytes.len() as u64
            || scan::names_segment(bytes, next, self.segment);
        let found = parts(bytes, is_end.then_some(end), is_whole);
        let found_end = found.last().map_or(HEADER, |(range, _)| range.end);
        let is_right = header.segment == u64::from(self.segment) && header.commit == self.commit;
        if !is_whole && !is_end && is_right && (found_end + 1..=bytes.len()).contains(&end) {
            return parts(bytes, Some(end), is_whole);
        }
        found
    }

    /// A good frame with something else instead of some of its records, which are given by where they
    /// begin.
    pub(crate) fn replace(
        &self,
        bytes: &[u8],
        instead: &BTreeMap<usize, Instead>,
    ) -> Option<Mended> {
        let all = bytes.get(HEADER..)?;
        let ranges: Option<Vec<_>> = frame::records(all)
            .map(|(at, raw)| Some(HEADER + at..HEADER + at + RECORD + raw.ok()?.1.len()))
            .collect();
        self.rebuild(bytes, &ranges?, instead)
    }

    fn rebuild(
        &self,
        bytes: &[u8],
        ranges: &[Range<usize>],
        instead: &BTreeMap<usize, Instead>,
    ) -> Option<Mended> {
        let (mut records, mut sum) = (Vec::with_capacity(bytes.len()), 0);
        let (mut kept, mut jobs) = (0, Vec::new());
        for range in ranges {
            let body =
                bytes.get(range.start + RECORD..range.end).filter(|body| !body.is_empty())?;
            let len = body.len();
            match instead.get(&range.start) {
                None => kept += 1,
                Some(_) => jobs.extend(self.job_of(body)),
            }
            frame::append(&mut records, &mut sum, |out| match instead.get(&range.start) {
                None => out.extend_from_slice(body),
                Some(Instead::Hole) => record::put_hole(self.hole, len, out),
                Some(Instead::Gone(id)) => record::put_gone_long(*id, len, out),
            });
        }
        let bytes = self.frame(self.commit, &records, sum);
        Some(Mended { bytes, kept, lost: ranges.len() - kept, jobs })
    }
}

/// The records of a damaged frame, one behind the other, and whether each is good. `end` is where they
/// end, if that is known.
fn parts(bytes: &[u8], end: Option<usize>, is_whole: bool) -> Vec<(Range<usize>, bool)> {
    let mut parts = Vec::new();
    let mut at = HEADER;
    let most = end.unwrap_or(bytes.len());
    while at < most {
        let len = said_len(bytes, at).map(|len| at + RECORD + len);
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
            // How long it was is not known, so what comes behind it cannot be found.
            if is_whole || end.is_some() {
                parts.push((at..most, false));
            }
            break;
        }
    }
    parts
}

fn said_len(bytes: &[u8], at: usize) -> Option<usize> {
    let len = bytes.get(at + 4..at + RECORD)?.try_into().ok().map(u32::from_le_bytes)?;
    (len > 0).then_some(len as usize)
}

fn is_good(bytes: &[u8], range: Range<usize>) -> bool {
    let body = bytes.get(range).map(frame::body);
    body.is_some_and(|body| body.is_ok_and(|body| check(body).is_ok()))
}

/// Whether a good record begins there.
fn starts(bytes: &[u8], at: usize) -> bool {
    said_len(bytes, at).is_some_and(|len| is_good(bytes, at..at + RECORD + len))
}

/// Whether only the zeros are left that fill a frame up.
fn is_padding(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.len() < 8 && rest.iter().all(|byte| *byte == 0))
}
