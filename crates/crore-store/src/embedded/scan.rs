//! Reading a segment from its frames.

use std::io;

use crore_core::JobId;

use super::codec::{ByteReader, Damaged};
use super::disk::DiskFile;
use super::frame::{self, FrameHeader, HEADER_BYTES, RECORD_HEADER_BYTES};
use super::hint::HintBuilder;
use super::record::RecordLocation;
use super::segment::HEAD_BYTES;

/// Result of scanning a segment.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    pub(crate) gathered: HintBuilder,
    /// End of the good frames, and why the next one is not good.
    pub(crate) end: u64,
    pub(crate) stop: Damaged,
    /// Good frames of this segment behind that point.
    pub(crate) later: Vec<LaterFrame>,
}

/// A good frame behind the end of the consecutive ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaterFrame {
    pub(crate) at: u64,
    pub(crate) header: FrameHeader,
}

/// Reads a whole file into a buffer of its size, which avoids the copies of a growing buffer.
pub(crate) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size(file)?).unwrap_or(usize::MAX)];
    let n = file.read(0, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Reads frames up to the first bad one, and searches for good ones behind it.
pub(crate) fn scan(bytes: &[u8], segment: u32, seed: u64) -> Result<SegmentScan, (u64, Damaged)> {
    let mut gathered = HintBuilder::new(segment);
    let mut at = HEAD_BYTES;
    let stop = loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let header = match frame::check(rest, seed, segment.into()) {
            Ok(header)
                if gathered
                    .last()
                    .is_none_or(|last| header.commit.checked_sub(1) == Some(last)) =>
            {
                header
            }
            Ok(_) => break Damaged("frame out of sequence"),
            Err(damaged) => break damaged,
        };
        add_frame(&mut gathered, rest, (segment, at), header)?;
        at += header.stride() as usize;
    };
    let next = gathered.last().map_or(0, |last| last.saturating_add(1));
    let later = find_later(bytes, at, (segment, seed), next);
    Ok(SegmentScan { gathered, end: at as u64, stop, later })
}

/// The kind of a record, as far as compaction needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Put(JobId),
    Live(JobId),
    Side,
}

/// Locations of the records of a frame. Checks only that they follow each other up to its end.
pub(crate) fn record_locations(
    frame: &[u8],
    segment: u32,
    at: u64,
) -> Result<Vec<(RecordLocation, RecordKind)>, Damaged> {
    let (_, header) = FrameHeader::read(frame)?;
    let all = frame.get(HEADER_BYTES..HEADER_BYTES + header.len as usize);
    let all = all.filter(|_| header.segment == u64::from(segment));
    let mut locations = Vec::new();
    for (start, raw) in frame::records(all.ok_or(Damaged("no frame of this segment"))?) {
        let (_, body) = raw?;
        let offset = u32::try_from(at + (HEADER_BYTES + start) as u64).unwrap_or(u32::MAX);
        let location =
            RecordLocation { segment, offset, len: (body.len() + RECORD_HEADER_BYTES) as u32 };
        locations.extend(record_kind(body)?.map(|kind| (location, kind)));
    }
    Ok(locations)
}

/// The kind of a record; `None` if compaction ignores it.
fn record_kind(body: &[u8]) -> Result<Option<RecordKind>, Damaged> {
    let mut reader = ByteReader::new(body);
    Ok(match reader.u8()? {
        1 => Some(RecordKind::Put(JobId(reader.var()?))),
        2 => Some(RecordKind::Live(JobId(reader.var()?))),
        4 => Some(RecordKind::Side),
        _ => None,
    })
}

/// Builds the hint of a segment whose frames end at `end`; `None` if the segment is damaged.
pub(crate) fn hint(
    file: &dyn DiskFile,
    segment: u32,
    seed: u64,
    end: u64,
) -> io::Result<Option<Vec<u8>>> {
    let mut gathered = HintBuilder::new(segment);
    let mut frames = FrameReader::of(file, end);
    while let Some((at, frame)) = frames.next()? {
        let position = (segment, usize::try_from(at).unwrap_or(usize::MAX));
        let Ok(header) = frame::check(frame, seed, segment.into()) else { return Ok(None) };
        let follows = gathered.last().is_none_or(|last| header.commit == last + 1);
        if !follows || add_frame(&mut gathered, frame, position, header).is_err() {
            return Ok(None);
        }
    }
    Ok(frames.is_whole().then(|| gathered.finish(seed, end)))
}

/// The frames of a segment, read in parts: a background scan uses little memory and yields the
/// processor between parts.
pub(crate) struct FrameReader<'a> {
    file: &'a dyn DiskFile,
    /// Start of the next frame, and end of the last one.
    at: u64,
    end: u64,
    /// A part of the file, and its offset.
    part: Vec<u8>,
    part_at: u64,
}

impl<'a> FrameReader<'a> {
    /// Minimum bytes per read.
    const PART: usize = 1 << 20;

    pub(crate) const fn of(file: &'a dyn DiskFile, end: u64) -> Self {
        Self { file, at: HEAD_BYTES as u64, end, part: Vec::new(), part_at: 0 }
    }

    /// Returns the next frame and its offset. The frame has the length of its header, or less at
    /// the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let at = self.at;
        let stride = match FrameHeader::read(self.get(at, HEADER_BYTES)?) {
            Ok((_, header)) => header.stride().min(self.end),
            Err(_) => HEADER_BYTES as u64,
        };
        self.at += stride;
        let frame = self.get(at, usize::try_from(stride).unwrap_or(usize::MAX))?;
        Ok(Some((at, frame)))
    }

    /// Whether the last frame ended at `end`.
    pub(crate) const fn is_whole(&self) -> bool {
        self.at == self.end
    }

    /// Returns `len` bytes from `at` on; fewer at the end of the file.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let part_end = self.part_at + self.part.len() as u64;
        if at < self.part_at || at + len as u64 > part_end {
            std::thread::yield_now();
            self.part.resize(len.max(Self::PART), 0);
            let n = self.file.read(at, &mut self.part)?;
            self.part.truncate(n);
            self.part_at = at;
        }
        let start = usize::try_from(at - self.part_at).unwrap_or(usize::MAX);
        let rest = self.part.get(start..).unwrap_or_default();
        Ok(rest.get(..len).unwrap_or(rest))
    }
}

fn add_frame(
    gathered: &mut HintBuilder,
    frame: &[u8],
    (segment, at): (u32, usize),
    header: FrameHeader,
) -> Result<(), (u64, Damaged)> {
    gathered.begin_frame(header);
    let all = frame.get(HEADER_BYTES..HEADER_BYTES + header.len as usize).unwrap_or_default();
    for (start, raw) in frame::records(all) {
        let offset = (at + HEADER_BYTES + start) as u64;
        let (_, body) = raw.map_err(|damaged| (offset, damaged))?;
        let len = (body.len() + RECORD_HEADER_BYTES) as u32;
        let location =
            RecordLocation { segment, offset: u32::try_from(offset).unwrap_or(u32::MAX), len };
        gathered.add_record(location, body).map_err(|damaged| (offset, damaged))?;
    }
    Ok(())
}

/// Finds good frames of this segment from `from` on, with a commit of at least `next`. Frames begin
/// at multiples of 8, and each names its segment.
fn find_later(
    bytes: &[u8],
    from: usize,
    (segment, seed): (u32, u64),
    next: u64,
) -> Vec<LaterFrame> {
    let name = u64::from(segment).to_le_bytes();
    let mut found = Vec::new();
    let mut at = from;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
        if rest.get(8..16) == Some(name.as_slice())
            && let Ok(header) = frame::check(rest, seed, segment.into())
        {
            if header.commit >= next {
                found.push(LaterFrame { at: at as u64, header });
            }
            at += header.stride() as usize;
        } else {
            at += 8;
        }
    }
    found
}

/// The newest commit that good frames of segments from `oldest` on prove durable; `None` without
/// such frames. The bytes begin at a frame boundary.
pub(crate) fn newest_synced(bytes: &[u8], seed: u64, oldest: u64) -> Option<u64> {
    // The second word of a frame is its segment, a small number; few other words are.
    let likely = (oldest.max(1))..=u64::from(u32::MAX);
    let (words, _) = bytes.as_chunks::<8>();
    let segments = words.iter().map(|word| u64::from_le_bytes(*word)).enumerate().skip(1);
    let frames = segments.filter(|(_, segment)| likely.contains(segment));
    let good = frames.filter_map(|(nth, segment)| {
        let rest = bytes.get((nth - 1) * 8..).unwrap_or_default();
        frame::check(rest, seed, segment).ok()
    });
    good.map(|header| header.synced).max()
}

/// The bytes at `at` read as a frame header.
pub(crate) fn header(bytes: &[u8], at: u64) -> Option<FrameHeader> {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..))?;
    FrameHeader::read(rest).ok().map(|(_, header)| header)
}

/// Whether the bytes at `at` begin like a frame of this segment.
pub(crate) fn names_segment(bytes: &[u8], at: u64, segment: u32) -> bool {
    header(bytes, at).is_some_and(|header| header.segment == u64::from(segment))
}

/// Length of a file.
pub(crate) fn size(file: &dyn DiskFile) -> io::Result<u64> {
    let has = |at: u64| file.read(at, &mut [0]).map(|n| n > 0);
    let mut above = 1;
    while has(above - 1)? {
        above *= 2;
    }
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if has(middle - 1)? { below = middle } else { above = middle }
    }
    Ok(below)
}
