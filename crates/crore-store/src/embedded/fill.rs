//! Filling a gap between two good frames.

use std::ops::RangeInclusive;

use crore_core::JobId;

use super::disk::Open;
use super::frame::Header;
use super::gaps::{Gap, Place, count};
use super::mend::{Form, LEAST, Mended, ROOMY};
use super::recover::unavailable;
use super::repair::Round;
use super::repairs::Step;
use super::scan;
use super::segment::{self, HEAD, Head};
use crate::Error;

/// A gap that is being filled: every place gets a number at least, and the last one all that are left.
#[derive(Debug)]
pub(crate) struct Filling<'r, 'd> {
    round: &'r mut Round<'d>,
    places: Vec<Place>,
    next: u64,
    last: u64,
    is_oldest: bool,
}

/// A part of a segment of which nothing can be read as it stands.
struct Stretch {
    bytes: Vec<u8>,
    /// Whether a good frame begins behind it.
    is_whole: bool,
}

/// What is to be written there.
#[derive(Default)]
struct Filled {
    frames: Vec<(u64, Mended)>,
    /// Where the next frame begins, relative to the stretch, and its number.
    at: u64,
    next: u64,
    /// The jobs that a frame of which nothing can be kept seems to have been about.
    suspects: Vec<JobId>,
    /// The commits of which nothing is left.
    missing: Option<(u64, u64)>,
}

impl<'r, 'd> Filling<'r, 'd> {
    pub(crate) fn new(round: &'r mut Round<'d>, gap: &Gap) -> Result<Self, Error> {
        let Gap { first, last, places, is_oldest } = gap;
        let numbers = last.checked_sub(*first).map_or(0, |n| n.saturating_add(1));
        if *first == 0 || numbers < count(places) {
            let what = format!("there is no commit missing before {}, but a frame is", last + 1);
            return Err(Error::Corrupt { what });
        }
        let (places, is_oldest) = (places.clone(), *is_oldest);
        Ok(Self { round, places, next: *first, last: *last, is_oldest })
    }

    pub(crate) fn fill(mut self) -> Result<(), Error> {
        let places = std::mem::take(&mut self.places);
        for (nth, place) in places.iter().enumerate() {
            let behind = count(places.get(nth + 1..).unwrap_or_default());
            match *place {
                Place::Stretch { segment, from, to } => {
                    self.fill_stretch(segment, (from, to), behind)?;
                }
                Place::Files { first, last } => {
                    for segment in first..=last {
                        self.make_file(segment, behind + u64::from(last - segment))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The commits that the next frame may stand for, if `behind` more are needed.
    const fn numbers(&self, behind: u64) -> RangeInclusive<u64> {
        self.next..=self.last.saturating_sub(behind)
    }

    /// A short segment with nothing but a hole.
    fn make_file(&mut self, number: u32, behind: u64) -> Result<(), Error> {
        let numbers = self.numbers(behind);
        let to = if behind == 0 { *numbers.end() } else { self.next };
        let survey = &self.round.survey;
        let size = survey.segments.values().map(|seen| seen.size).max().unwrap_or_default();
        let form = self.round.form(number, self.next, self.like(number), size);
        let frame = form.filler(ROOMY, to);
        let names = survey.names.iter().filter_map(|name| segment::number(name));
        let name =
            names.max().unwrap_or_default() + u64::from(number) - u64::from(survey.oldest) + 1;
        let (seed, disk) = (survey.seed, self.round.disk);
        self.round.drop_hint(number)?;
        // The frame is there before the head says that it counts.
        let file = disk.open(&segment::name(name), Open::Create).map_err(unavailable)?;
        file.write(HEAD as u64, &frame).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        let size = HEAD as u64 + frame.len() as u64;
        let head = Head { segment: number.into(), seed, size };
        file.write(0, &head.bytes()).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        let what = format!("no file holds segment {number}: this one says so");
        let mut step = Step::new(segment::name(name), 0, &what);
        step.commits = Some((if self.is_oldest { 0 } else { self.next }, to));
        self.round.repairs.steps.push(step);
        self.next = to + 1;
        Ok(())
    }

    /// The header of the nearest good frame before, or behind.
    fn like(&self, segment: u32) -> Header {
        let segments = &self.round.survey.segments;
        let before =
            segments.range(..=segment).rev().flat_map(|(_, seen)| seen.frames.iter().rev());
        let before = before.map(|frame| frame.header).find(|header| header.commit < self.next);
        let behind = || segments.range(segment..).find_map(|(_, seen)| seen.frames.first());
        let oldest = u64::from(self.round.survey.oldest);
        before.or_else(|| behind().map(|frame| frame.header)).unwrap_or(Header {
            len: 0,
            segment: segment.into(),
            commit: self.next,
            synced: 0,
            oldest,
            at: 0,
        })
    }

    fn fill_stretch(
        &mut self,
        segment: u32,
        (from, to): (u64, Option<u64>),
        behind: u64,
    ) -> Result<(), Error> {
        let Some(seen) = self.round.survey.segments.get(&segment) else { return Ok(()) };
        let mut bytes = scan::read_all(&*seen.file).map_err(unavailable)?;
        bytes.truncate(to.map_or(bytes.len(), |to| to as usize));
        bytes.drain(..bytes.len().min(from as usize));
        let stretch = Stretch { bytes, is_whole: to.is_some() };
        let form = self.round.form(segment, self.next, self.like(segment), stretch.lost());
        let filled = stretch.fill(form, self.numbers(behind), behind == 0)?;
        let new: Vec<u8> =
            filled.frames.iter().flat_map(|(_, mended)| &mended.bytes).copied().collect();
        let old = stretch.old(new.len());
        let saved = self.round.write_over(segment, seen, (from, old), &new)?;
        let mut step = filled.step(seen.file_name(), from, saved);
        if let Some((first, _)) = step.commits.as_mut().filter(|_| self.is_oldest) {
            *first = 0;
        }
        self.next = filled.next;
        self.round.repairs.steps.push(step);
        Ok(())
    }
}

impl Stretch {
    /// How many bytes there were, at most.
    fn lost(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What is written over, and what stands behind that and may have been part of it.
    fn old(&self, new: usize) -> &[u8] {
        if self.is_whole {
            return &self.bytes;
        }
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.bytes.get(..used.max(new).min(self.bytes.len())).unwrap_or_default()
    }

    /// Saves what can be saved, frame by frame, and fills the rest.
    fn fill(
        &self,
        form: Form,
        numbers: RangeInclusive<u64>,
        takes_all: bool,
    ) -> Result<Filled, Error> {
        let (first, last) = (*numbers.start(), *numbers.end());
        let mut filled = Filled { next: first, ..Filled::default() };
        while filled.next <= last
            && let Some(rest) = self.bytes.get(filled.at as usize..).filter(|rest| !rest.is_empty())
            && let Some(mended) = form.at(filled.next).salvage(rest, self.is_whole)
        {
            filled.push(mended);
        }
        let rest = self.bytes.get(filled.at as usize..).unwrap_or_default();
        filled.suspects = form.at(filled.next).suspects(rest, self.is_whole);
        let to = if takes_all { last } else { filled.next.min(last) };
        if self.is_whole {
            let len = self.bytes.len() as u64;
            let is_over = filled.at == len && (filled.next > last || !takes_all);
            // What is left needs a frame, and that a number.
            while !is_over && (filled.next > last || len - filled.at < LEAST) {
                if !filled.pop() {
                    let what = format!("{len} bytes are damaged: too few for a frame");
                    return Err(Error::Corrupt { what });
                }
            }
            if !is_over {
                filled.fill_up(form, len - filled.at, to.max(filled.next));
            }
        } else if filled.frames.is_empty() || takes_all && filled.next <= last {
            filled.fill_up(form, ROOMY, to.max(filled.next));
        }
        Ok(filled)
    }
}

impl Filled {
    fn push(&mut self, mended: Mended) {
        let at = self.at;
        self.at += mended.bytes.len() as u64;
        self.next += 1;
        self.frames.push((at, mended));
    }

    /// Takes the last frame back.
    fn pop(&mut self) -> bool {
        let Some((at, _)) = self.frames.pop() else { return false };
        (self.at, self.next) = (at, self.next - 1);
        true
    }

    /// A frame of `len` bytes for all commits up to `last`.
    fn fill_up(&mut self, form: Form, len: u64, last: u64) {
        let bytes = form.at(self.next).filler(len, last);
        let jobs = std::mem::take(&mut self.suspects);
        self.missing = Some((self.next, last));
        self.frames.push((self.at, Mended { bytes, kept: 0, lost: 0, jobs }));
        (self.at, self.next) = (self.at + len, last + 1);
    }

    fn step(&self, file: String, from: u64, saved: String) -> Step {
        let kept: usize = self.frames.iter().map(|(_, mended)| mended.kept).sum();
        let lost: usize = self.frames.iter().map(|(_, mended)| mended.lost).sum();
        let what = match (kept, self.missing, lost) {
            (0, ..) => "nothing can be read here: it is a hole now",
            (_, None, 0) => "the frame around good records is built anew",
            _ => "what can be read is kept, the rest is a hole now",
        };
        let mut step = Step::new(file, from, what);
        (step.len, step.kept, step.lost) = (self.at, kept, lost);
        (step.commits, step.saved) = (self.missing, Some(saved));
        step.jobs = self.frames.iter().flat_map(|(_, mended)| mended.jobs.clone()).collect();
        step
    }
}
