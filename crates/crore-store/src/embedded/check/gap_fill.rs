//! Filling a gap in the sequence of commits with rebuilt frames and holes.

use std::ops::RangeInclusive;

use crore_core::JobId;

use super::commits::{Gap, GapLocation, count};
use super::frame_rebuild::{FrameTemplate, HOLE_FRAME_BYTES, MIN_FRAME_BYTES, RebuiltFrame};
use super::repair::RepairPass;
use super::repair_report::RepairStep;
use crate::Error;
use crate::embedded::disk::OpenMode;
use crate::embedded::frame::FrameHeader;
use crate::embedded::recover::unavailable;
use crate::embedded::scan;
use crate::embedded::segment::{self, HEAD_BYTES, SegmentHead};

/// A gap being filled: every location gets at least one commit, and the last one all the rest.
#[derive(Debug)]
pub(super) struct GapFill<'r, 'd> {
    pass: &'r mut RepairPass<'d>,
    locations: Vec<GapLocation>,
    next: u64,
    last: u64,
    is_oldest: bool,
}

/// A range of a segment without an intact frame.
struct DamagedBytes {
    bytes: Vec<u8>,
    /// Whether a good frame follows.
    is_whole: bool,
}

/// The frames that replace damaged bytes.
#[derive(Default)]
struct NewFrames {
    list: Vec<(u64, RebuiltFrame)>,
    /// Offset of the next frame in the damaged bytes, and its commit.
    at: u64,
    next: u64,
    /// The jobs that a frame without any good record seems to belong to.
    suspects: Vec<JobId>,
    /// The first and last commit of those that are lost completely.
    missing: Option<(u64, u64)>,
}

impl<'r, 'd> GapFill<'r, 'd> {
    pub(super) fn new(pass: &'r mut RepairPass<'d>, gap: &Gap) -> Result<Self, Error> {
        let Gap { first, last, locations, is_oldest } = gap;
        let numbers = last.checked_sub(*first).map_or(0, |n| n.saturating_add(1));
        if *first == 0 || numbers < count(locations) {
            let what = format!(
                "cannot repair: a frame is missing before commit {}, although the commit numbers have no gap",
                last + 1
            );
            return Err(Error::Corrupt { what });
        }
        let (locations, is_oldest) = (locations.clone(), *is_oldest);
        Ok(Self { pass, locations, next: *first, last: *last, is_oldest })
    }

    pub(super) fn fill(mut self) -> Result<(), Error> {
        let locations = std::mem::take(&mut self.locations);
        for (nth, location) in locations.iter().enumerate() {
            let behind = count(locations.get(nth + 1..).unwrap_or_default());
            match *location {
                GapLocation::Bytes { segment, from, to } => {
                    self.fill_bytes(segment, (from, to), behind)?;
                }
                GapLocation::Segments { first, last } => {
                    for segment in first..=last {
                        self.create_segment(segment, behind + u64::from(last - segment))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The commits that the next frame may cover, if `behind` more frames follow.
    const fn numbers(&self, behind: u64) -> RangeInclusive<u64> {
        self.next..=self.last.saturating_sub(behind)
    }

    /// Creates a short segment with nothing but a hole.
    fn create_segment(&mut self, number: u32, behind: u64) -> Result<(), Error> {
        let numbers = self.numbers(behind);
        let to = if behind == 0 { *numbers.end() } else { self.next };
        let files = &self.pass.files;
        let size =
            files.segments.values().map(|segment_file| segment_file.size).max().unwrap_or_default();
        let template = self.pass.template(number, self.next, self.like(number), size);
        let frame = template.filler(HOLE_FRAME_BYTES, to);
        let names = files.names.iter().filter_map(|name| segment::number(name));
        let name =
            names.max().unwrap_or_default() + u64::from(number) - u64::from(files.oldest) + 1;
        let (seed, disk) = (files.seed, self.pass.disk);
        self.pass.drop_hint(number)?;
        // The frame is durable before the head makes the segment valid.
        let file = disk.open(&segment::name(name), OpenMode::Create).map_err(unavailable)?;
        file.write(HEAD_BYTES as u64, &frame).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        let size = HEAD_BYTES as u64 + frame.len() as u64;
        let head = SegmentHead { segment: number.into(), seed, size };
        file.write(0, &head.bytes()).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        let what = format!("segment {number} was missing: created with a hole");
        let mut step = RepairStep::new(segment::name(name), 0, &what);
        step.commits = Some((if self.is_oldest { 0 } else { self.next }, to));
        self.pass.repairs.steps.push(step);
        self.next = to + 1;
        Ok(())
    }

    /// The header of the nearest good frame before, or else after.
    fn like(&self, segment: u32) -> FrameHeader {
        let segments = &self.pass.files.segments;
        let before = segments
            .range(..=segment)
            .rev()
            .flat_map(|(_, segment_file)| segment_file.frames.iter().rev());
        let before = before.map(|frame| frame.header).find(|header| header.commit < self.next);
        let behind =
            || segments.range(segment..).find_map(|(_, segment_file)| segment_file.frames.first());
        let oldest = u64::from(self.pass.files.oldest);
        before.or_else(|| behind().map(|frame| frame.header)).unwrap_or(FrameHeader {
            len: 0,
            segment: segment.into(),
            commit: self.next,
            synced: 0,
            oldest,
            at: 0,
        })
    }

    fn fill_bytes(
        &mut self,
        segment: u32,
        (from, to): (u64, Option<u64>),
        behind: u64,
    ) -> Result<(), Error> {
        let Some(segment_file) = self.pass.files.segments.get(&segment) else { return Ok(()) };
        let mut bytes = scan::read_all(&*segment_file.file).map_err(unavailable)?;
        bytes.truncate(to.map_or(bytes.len(), |to| to as usize));
        bytes.drain(..bytes.len().min(from as usize));
        let damaged = DamagedBytes { bytes, is_whole: to.is_some() };
        let template = self.pass.template(segment, self.next, self.like(segment), damaged.lost());
        let frames = damaged.fill(template, self.numbers(behind), behind == 0)?;
        let new: Vec<u8> =
            frames.list.iter().flat_map(|(_, rebuilt)| &rebuilt.bytes).copied().collect();
        let old = damaged.old(new.len());
        let saved = self.pass.write_over(segment, segment_file, (from, old), &new)?;
        let mut step = frames.step(segment_file.file_name(), from, saved);
        if let Some((first, _)) = step.commits.as_mut().filter(|_| self.is_oldest) {
            *first = 0;
        }
        self.next = frames.next;
        self.pass.repairs.steps.push(step);
        Ok(())
    }
}

impl DamagedBytes {
    /// Length in bytes, an upper bound of what is lost.
    fn lost(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes to save: those to overwrite, and those after them that may belong to them.
    fn old(&self, new: usize) -> &[u8] {
        if self.is_whole {
            return &self.bytes;
        }
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.bytes.get(..used.max(new).min(self.bytes.len())).unwrap_or_default()
    }

    /// Rebuilds frame by frame as far as possible, and fills the rest with a hole.
    fn fill(
        &self,
        template: FrameTemplate,
        numbers: RangeInclusive<u64>,
        takes_all: bool,
    ) -> Result<NewFrames, Error> {
        let (first, last) = (*numbers.start(), *numbers.end());
        let mut frames = NewFrames { next: first, ..NewFrames::default() };
        while frames.next <= last
            && let Some(rest) = self.bytes.get(frames.at as usize..).filter(|rest| !rest.is_empty())
            && let Some(rebuilt) = template.at(frames.next).salvage(rest, self.is_whole)
        {
            frames.push(rebuilt);
        }
        let rest = self.bytes.get(frames.at as usize..).unwrap_or_default();
        frames.suspects = template.at(frames.next).suspects(rest, self.is_whole);
        let to = if takes_all { last } else { frames.next.min(last) };
        if self.is_whole {
            let len = self.bytes.len() as u64;
            let is_over = frames.at == len && (frames.next > last || !takes_all);
            // The rest becomes a hole, which needs space and a commit number: drop rebuilt frames until it has both.
            while !is_over && (frames.next > last || len - frames.at < MIN_FRAME_BYTES) {
                if !frames.pop() {
                    let what = format!("{len} bytes are damaged: too few for a frame");
                    return Err(Error::Corrupt { what });
                }
            }
            if !is_over {
                frames.fill_up(template, len - frames.at, to.max(frames.next));
            }
        } else if frames.list.is_empty() || takes_all && frames.next <= last {
            frames.fill_up(template, HOLE_FRAME_BYTES, to.max(frames.next));
        }
        Ok(frames)
    }
}

impl NewFrames {
    fn push(&mut self, rebuilt: RebuiltFrame) {
        let at = self.at;
        self.at += rebuilt.bytes.len() as u64;
        self.next += 1;
        self.list.push((at, rebuilt));
    }

    /// Removes the last frame.
    fn pop(&mut self) -> bool {
        let Some((at, _)) = self.list.pop() else { return false };
        (self.at, self.next) = (at, self.next - 1);
        true
    }

    /// Adds a hole of `len` bytes for all commits up to `last`.
    fn fill_up(&mut self, template: FrameTemplate, len: u64, last: u64) {
        let bytes = template.at(self.next).filler(len, last);
        let jobs = std::mem::take(&mut self.suspects);
        self.missing = Some((self.next, last));
        self.list.push((self.at, RebuiltFrame { bytes, kept: 0, lost: 0, jobs }));
        (self.at, self.next) = (self.at + len, last + 1);
    }

    fn step(&self, file: String, from: u64, saved: String) -> RepairStep {
        let kept: usize = self.list.iter().map(|(_, rebuilt)| rebuilt.kept).sum();
        let lost: usize = self.list.iter().map(|(_, rebuilt)| rebuilt.lost).sum();
        let what = match (kept, self.missing, lost) {
            (0, ..) => "unreadable: replaced by a hole",
            (_, None, 0) => "frame rebuilt around good records",
            _ => "readable records kept, the rest replaced by a hole",
        };
        let mut step = RepairStep::new(file, from, what);
        (step.len, step.kept, step.lost) = (self.at, kept, lost);
        (step.commits, step.saved) = (self.missing, Some(saved));
        step.jobs = self.list.iter().flat_map(|(_, rebuilt)| rebuilt.jobs.clone()).collect();
        step
    }
}
