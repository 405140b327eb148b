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

/// Where the records of a frame are. Nothing is checked but that one follows the other up to its end.
pub(crate) fn places(frame: &[u8], segment: u32, at: u64) -> Result<Vec<(Spot, What)>, Damaged> {
    let (_, header) = Header::read(frame)?;
    let all = frame.get(HEADER..HEADER + header.len as usize);
    let all = all.filter(|_| header.segment == u64::from(segment));
    let mut places = Vec::new();
    for (start, raw) in frame::records(all.ok_or(Damaged("no frame of this segment"))?) {
        let (_, body) = raw?;
        let offset = u32::try_from(at + (HEADER + start) as u64).unwrap_or(u32::MAX);
        let spot = Spot { segment, offset, len: (body.len() + RECORD) as u32 };
        places.extend(what(body)?.map(|what| (spot, what)));
    }
    Ok(places)
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

/// The hint of a segment whose frames end there. `None`: the segment is damaged.
pub(crate) fn hint(
    file: &dyn File,
    segment: u32,
    seed: u64,
    end: u64,
) -> io::Result<Option<Vec<u8>>> {
    let mut gathered = Gather::new(segment);
    let mut frames = Frames::of(file, end);
    while let Some((at, frame)) = frames.next()? {
        let place = (segment, usize::try_from(at).unwrap_or(usize::MAX));
        let Ok(header) = frame::check(frame, seed, segment.into()) else { return Ok(None) };
        let follows = gathered.last().is_none_or(|last| header.commit == last + 1);
        if !follows || gather(&mut gathered, frame, place, header).is_err() {
            return Ok(None);
        }
    }
    Ok(frames.is_whole().then(|| gathered.finish(seed, end)))
}

/// The frames of a segment, read bit by bit: whoever looks through a segment in the background should
/// need little memory, and let others have the processor in between.
pub(crate) struct Frames<'a> {
    file: &'a dyn File,
    /// Where the next frame begins, and where the last one ends.
    at: u64,
    end: u64,
    /// A part of the file, and where it begins.
    part: Vec<u8>,
    part_at: u64,
}

impl<'a> Frames<'a> {
    /// How much is read at a time, at the least.
    const PART: usize = 1 << 20;

    pub(crate) const fn of(file: &'a dyn File, end: u64) -> Self {
        Self { file, at: HEAD as u64, end, part: Vec::new(), part_at: 0 }
    }

    /// The next frame, and where it begins; its bytes are as many as its header says, if the file has
    /// them.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let at = self.at;
        let stride = match Header::read(self.get(at, HEADER)?) {
            Ok((_, header)) => header.stride().min(self.end),
            Err(_) => HEADER as u64,
        };
        self.at += stride;
        let frame = self.get(at, usize::try_from(stride).unwrap_or(usize::MAX))?;
        Ok(Some((at, frame)))
    }

    /// Whether the last frame ended where it should.
    pub(crate) const fn is_whole(&self) -> bool {
        self.at == self.end
    }

    /// So many bytes from there on; fewer if the file ends.
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
