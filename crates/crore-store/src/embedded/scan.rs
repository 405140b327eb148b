//! Reading a segment from its frames.

use std::io;

use crore_core::JobId;

use super::codec::{Damaged, Reader};
use super::disk::File;
use super::frame::{self, HEADER, Header, RECORD};
use super::hint::Gather;
use super::record::Spot;
use super::segment::HEAD;

/// A segment as its frames tell it.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) gathered: Gather,
    /// Where the good frames end, and what stands there instead of another.
    pub(crate) end: u64,
    pub(crate) stop: Damaged,
    /// Frames of this segment that stand behind that.
    pub(crate) later: Vec<Later>,
}

/// A good frame where none should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Later {
    pub(crate) at: u64,
    pub(crate) header: Header,
}

/// All bytes of a file, read into a buffer that never grows: a large one that does is copied again and
/// again.
pub(crate) fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size(file)?).unwrap_or(usize::MAX)];
    let n = file.read(0, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Reads the frames of a segment up to the first that is not good, and looks for good ones behind it.
pub(crate) fn scan(bytes: &[u8], segment: u32, seed: u64) -> Result<Scan, (u64, Damaged)> {
    let mut gathered = Gather::new(segment);
    let mut at = HEAD;
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
            Ok(_) => break Damaged("a frame whose number does not follow"),
            Err(damaged) => break damaged,
        };
        gather(&mut gathered, rest, (segment, at), header)?;
        at += header.stride() as usize;
    };
    let next = gathered.last().map_or(0, |last| last.saturating_add(1));
    let later = find_later(bytes, at, (segment, seed), next);
    Ok(Scan { gathered, end: at as u64, stop, later })
}

/// What a record is about, as far as compaction wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Put(JobId),
    Live(JobId),
    Side,
}

/// Where the records of a segment are whose frames end there. Nothing is checked but that one follows
/// the other up to the end.
pub(crate) fn places(
    bytes: &[u8],
    segment: u32,
    end: u64,
) -> Result<Vec<(Spot, What)>, (u64, Damaged)> {
    let (mut at, mut places) = (HEAD, Vec::new());
    while (at as u64) < end {
        let rest = bytes.get(at..).unwrap_or_default();
        let wrong = |damaged| (at as u64, damaged);
        let (_, header) = Header::read(rest).map_err(wrong)?;
        let all = rest.get(HEADER..HEADER + header.len as usize);
        let all = all.filter(|_| header.segment == u64::from(segment));
        for (start, raw) in frame::records(all.ok_or(wrong(Damaged("no frame of this segment")))?) {
            let (_, body) = raw.map_err(wrong)?;
            let offset = u32::try_from(at + HEADER + start).unwrap_or(u32::MAX);
            let spot = Spot { segment, offset, len: (body.len() + RECORD) as u32 };
            places.extend(what(body).map_err(wrong)?.map(|what| (spot, what)));
        }
        at += header.stride() as usize;
    }
    if at as u64 == end { Ok(places) } else { Err((at as u64, Damaged("frames that do not end"))) }
}

/// What a record is about; `None`: nothing that compaction has to do with.
fn what(body: &[u8]) -> Result<Option<What>, Damaged> {
    let mut reader = Reader::new(body);
    Ok(match reader.u8()? {
        1 => Some(What::Put(JobId(reader.var()?))),
        2 => Some(What::Live(JobId(reader.var()?))),
        4 => Some(What::Side),
        _ => None,
    })
}

/// The hint of a segment whose frames end there, read frame by frame: a store that is full of jobs
/// should not need as much memory again. `None`: the segment is damaged.
pub(crate) fn hint(
    file: &dyn File,
    segment: u32,
    seed: u64,
    end: u64,
) -> io::Result<Option<Vec<u8>>> {
    let (mut gathered, mut at) = (Gather::new(segment), HEAD as u64);
    let mut window = Window { file, at, bytes: Vec::new() };
    while at < end {
        let head = Header::read(window.get(at, HEADER)?);
        let Ok((_, header)) = head else { return Ok(None) };
        let stride = header.stride().min(end);
        let frame = window.get(at, usize::try_from(stride).unwrap_or(usize::MAX))?;
        let place = (segment, usize::try_from(at).unwrap_or(usize::MAX));
        let follows = gathered.last().is_none_or(|last| header.commit == last + 1);
        if !follows
            || frame::check(frame, seed, segment.into()).is_err()
            || gather(&mut gathered, frame, place, header).is_err()
        {
            return Ok(None);
        }
        at += stride;
    }
    Ok((at == end).then(|| gathered.finish(seed, end)))
}

/// A part of a file.
struct Window<'a> {
    file: &'a dyn File,
    at: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// How much is read at a time, at the least.
    const PART: usize = 1 << 20;

    /// So many bytes from there on; fewer if the file ends.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let end = self.at + self.bytes.len() as u64;
        if at < self.at || at + len as u64 > end {
            self.bytes.resize(len.max(Self::PART), 0);
            let n = self.file.read(at, &mut self.bytes)?;
            self.bytes.truncate(n);
            self.at = at;
        }
        let start = usize::try_from(at - self.at).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        Ok(rest.get(..len).unwrap_or(rest))
    }
}

fn gather(
    gathered: &mut Gather,
    frame: &[u8],
    (segment, at): (u32, usize),
    header: Header,
) -> Result<(), (u64, Damaged)> {
    gathered.frame(header);
    let all = frame.get(HEADER..HEADER + header.len as usize).unwrap_or_default();
    for (start, raw) in frame::records(all) {
        let offset = (at + HEADER + start) as u64;
        let (_, body) = raw.map_err(|damaged| (offset, damaged))?;
        let len = (body.len() + RECORD) as u32;
        let spot = Spot { segment, offset: u32::try_from(offset).unwrap_or(u32::MAX), len };
        gathered.record(spot, body).map_err(|damaged| (offset, damaged))?;
    }
    Ok(())
}

/// Good frames of this segment from `from` on, of a commit not before `next`. Frames begin at
/// multiples of 8, and each names its segment.
fn find_later(bytes: &[u8], from: usize, (segment, seed): (u32, u64), next: u64) -> Vec<Later> {
    let name = u64::from(segment).to_le_bytes();
    let mut found = Vec::new();
    let mut at = from;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER) {
        if rest.get(8..16) == Some(name.as_slice())
            && let Ok(header) = frame::check(rest, seed, segment.into())
        {
            if header.commit >= next {
                found.push(Later { at: at as u64, header });
            }
            at += header.stride() as usize;
        } else {
            at += 8;
        }
    }
    found
}

/// What good frames of any segment from `oldest` on in these bytes, which begin where frames do, say to
/// be durable; `None`: there are none.
pub(crate) fn newest_synced(bytes: &[u8], seed: u64, oldest: u64) -> Option<u64> {
    // A frame's second word is its segment, which is a small number; few words of anything else are.
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

/// What stands at `at`, read as the header of a frame.
pub(crate) fn header(bytes: &[u8], at: u64) -> Option<Header> {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..))?;
    Header::read(rest).ok().map(|(_, header)| header)
}

/// Whether what stands at `at` begins like a frame of this segment.
pub(crate) fn names_segment(bytes: &[u8], at: u64, segment: u32) -> bool {
    header(bytes, at).is_some_and(|header| header.segment == u64::from(segment))
}

/// How long a file is.
pub(crate) fn size(file: &dyn File) -> io::Result<u64> {
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
