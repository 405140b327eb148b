//! `repair`: replaces damage by holes, so that the store can be opened again.
//!
//! Nothing is destroyed: overwritten bytes are first copied into a file of their own. A repair that was
//! interrupted can be run again.

use std::collections::BTreeMap;

use super::commits::CommitChain;
use super::contents::Contents;
use super::files::{Frame, SegmentFile, StoreFiles};
use super::frame_rebuild::{FrameTemplate, MIN_FRAME_BYTES, RebuiltFrame, Replacement};
use super::gap_fill::GapFill;
use super::repair_report::{Repairs, Step};
use super::verify::{report, verify};
use crate::Error;
use crate::embedded::disk::{Disk, Open};
use crate::embedded::frame::{HEADER, Header};
use crate::embedded::record::{Hole, Meta, Spot};
use crate::embedded::recover::{hint_name, unavailable};
use crate::embedded::replay::drop_hint;
use crate::embedded::scan;
use crate::embedded::segment::{self, HEAD, Head};

/// Maximum passes: one for each kind of damage, and one for each that another kind hides.
const ROUNDS: usize = 12;
/// Deliveries of one opening: see `recover.rs`.
const EPOCH_BITS: u32 = 40;
/// Maximum openings that are assumed to be missing.
const MOST_OPENINGS: u64 = 1 << 16;

/// Makes a damaged store that is not open openable again, and says what it did and what is lost. A
/// store without damage is not changed.
///
/// What can be proved by its own checksum stays. What cannot is first copied into a file
/// `damaged-<segment>-<offset>`, and then written over with a hole. Files of the log that do not
/// belong to it are copied to `aside-<file>` and removed. A job whose later changes are there, but not
/// what was pushed, is left out.
pub fn repair(disk: &dyn Disk) -> Result<Repairs, Error> {
    let mut repairs = Repairs::default();
    for _ in 0..ROUNDS {
        if !Pass::begin(disk, &mut repairs)?.run()? {
            break;
        }
    }
    let report = verify(disk)?;
    match report.damage.first() {
        None => Ok(repairs),
        Some(damage) => Err(Error::Corrupt { what: format!("no repair is known for {damage}") }),
    }
}

/// A frame of a segment, and the replacements of its records by their offset in it.
type FrameReplacements = (u32, Frame, BTreeMap<usize, Replacement>);

/// One pass: reads the whole store and repairs one kind of damage.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) files: StoreFiles,
    pub(super) chain: CommitChain,
    pub(super) contents: Contents,
    pub(super) repairs: &'a mut Repairs,
}

impl<'a> Pass<'a> {
    fn begin(disk: &'a dyn Disk, repairs: &'a mut Repairs) -> Result<Self, Error> {
        let files = StoreFiles::read(disk)?;
        let chain = files.commit_chain();
        let contents = Contents::read(disk, &files, &chain)?;
        Ok(Self { disk, files, chain, contents, repairs })
    }

    /// Repairs one kind of damage, the one that may hide others; says whether there was any.
    fn run(mut self) -> Result<bool, Error> {
        if report(&self.files, &self.chain, &self.contents).is_good() {
            return Ok(false);
        }
        if !self.files.foreign.is_empty() {
            self.set_foreign_aside()?;
        } else if self.files.segments.values().any(|segment_file| !segment_file.has_head) {
            self.rewrite_heads()?;
        } else if !self.chain.gaps.is_empty() {
            self.fill_gaps()?;
        } else if !self.contents.bad.is_empty() {
            self.replace_bad_records()?;
        } else if !self.contents.orphans.is_empty() {
            self.remove_orphans()?;
        } else {
            for segment in std::mem::take(&mut self.contents.false_hints) {
                self.drop_hint(segment)?;
                let step = Step::new(hint_name(segment), 0, "a hint that was wrong is removed");
                self.repairs.steps.push(step);
            }
        }
        Ok(true)
    }

    fn set_foreign_aside(&mut self) -> Result<(), Error> {
        for one in std::mem::take(&mut self.files.foreign) {
            let name = segment::name(one.name);
            let file = self.disk.open(&name, Open::Existing).map_err(unavailable)?;
            let bytes = scan::read_all(&*file).map_err(unavailable)?;
            let saved = self.save(&format!("aside-{name}"), &bytes)?;
            self.disk.remove(&name).map_err(unavailable)?;
            let mut step = Step::new(name, 0, &format!("{}: set aside", one.what));
            step.saved = Some(saved);
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    fn rewrite_heads(&mut self) -> Result<(), Error> {
        for (number, segment_file) in
            self.files.segments.iter().filter(|(_, segment_file)| !segment_file.has_head)
        {
            let mut old = [0; HEAD];
            segment_file.file.read(0, &mut old).map_err(unavailable)?;
            let saved = self.save(&damaged_name(*number, 0), &old)?;
            let (segment, seed) = (u64::from(*number), self.files.seed);
            let head = Head { segment, seed, size: segment_file.size };
            segment_file.file.write(0, &head.bytes()).map_err(unavailable)?;
            segment_file.file.sync().map_err(unavailable)?;
            let what = format!("the head of segment {number} is written anew, from its frames");
            let mut step = Step::new(segment_file.file_name(), 0, &what);
            step.saved = Some(saved);
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    fn fill_gaps(&mut self) -> Result<(), Error> {
        for gap in std::mem::take(&mut self.chain.gaps) {
            GapFill::new(self, &gap)?.fill()?;
        }
        Ok(())
    }

    /// Replaces records that cannot be decoded by holes.
    fn replace_bad_records(&mut self) -> Result<(), Error> {
        let bad = std::mem::take(&mut self.contents.bad);
        let spots = bad.iter().map(|one| (one.spot, Replacement::Hole));
        for (segment, frame, replacements) in self.group_by_frame(spots) {
            let mut step = self.replace(segment, frame, &replacements)?;
            step.what = "what cannot be read in this frame is a hole now".to_owned();
            step.commits = Some((frame.header.commit, frame.header.commit));
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    /// Removes jobs whose push is lost.
    fn remove_orphans(&mut self) -> Result<(), Error> {
        let orphans = std::mem::take(&mut self.contents.orphans);
        let spots = orphans.iter().map(|(id, spot)| (*spot, Replacement::Gone(*id)));
        for (segment, frame, replacements) in self.group_by_frame(spots) {
            let mut step = self.replace(segment, frame, &replacements)?;
            step.what = "changes of jobs whose push is lost are taken out".to_owned();
            step.jobs.clear();
            self.repairs.steps.push(step);
        }
        orphans.iter().for_each(|(id, _)| self.repairs.leave_out(*id));
        Ok(())
    }

    /// Groups the replacements of records by their frames.
    fn group_by_frame(
        &self,
        spots: impl Iterator<Item = (Spot, Replacement)>,
    ) -> Vec<FrameReplacements> {
        let mut frames = BTreeMap::<(u32, u64), (Frame, BTreeMap<usize, Replacement>)>::new();
        for (spot, replacements) in spots {
            let offset = u64::from(spot.offset);
            let segment_file = self.files.segments.get(&spot.segment);
            let holds = |frame: &&Frame| (frame.at..frame.end).contains(&offset);
            if let Some(frame) =
                segment_file.and_then(|segment_file| segment_file.frames.iter().find(holds))
            {
                let slot = frames.entry((spot.segment, frame.at));
                let (_, all) = slot.or_insert_with(|| (*frame, BTreeMap::new()));
                all.insert((offset - frame.at) as usize, replacements);
            }
        }
        frames.into_iter().map(|((segment, _), (frame, all))| (segment, frame, all)).collect()
    }

    /// Replaces some records of a good frame.
    fn replace(
        &self,
        segment: u32,
        frame: Frame,
        replacements: &BTreeMap<usize, Replacement>,
    ) -> Result<Step, Error> {
        let Some(segment_file) = self.files.segments.get(&segment) else {
            return Ok(Step::default());
        };
        let mut old = vec![0; (frame.end - frame.at) as usize];
        segment_file.file.read(frame.at, &mut old).map_err(unavailable)?;
        let template = self.template(segment, frame.header.commit, frame.header, old.len() as u64);
        let records = old.get(..HEADER + frame.header.len as usize);
        let rebuilt = records.and_then(|records| template.replace(records, replacements));
        let rebuilt = rebuilt.unwrap_or_else(|| RebuiltFrame {
            bytes: template.filler(frame.end - frame.at, frame.last),
            kept: 0,
            lost: replacements.len(),
            jobs: Vec::new(),
        });
        let saved = self.write_over(segment, segment_file, (frame.at, &old), &rebuilt.bytes)?;
        let mut step = Step::new(segment_file.file_name(), frame.at, "");
        (step.len, step.kept, step.lost) = (old.len() as u64, rebuilt.kept, rebuilt.lost);
        (step.saved, step.jobs) = (Some(saved), rebuilt.jobs);
        Ok(step)
    }

    /// The template of a rebuilt frame of this segment, where `lost` bytes are damaged.
    pub(super) fn template(
        &self,
        segment: u32,
        commit: u64,
        like: Header,
        lost: u64,
    ) -> FrameTemplate {
        let Meta { last_id, last_delivery, revision } = self.contents.meta;
        // Missing commits may have allocated numbers, a few bytes for each at least, and each opening
        // begins a new epoch of deliveries.
        let most = lost / 16 + 1;
        let openings = (lost / MIN_FRAME_BYTES + 1).min(MOST_OPENINGS);
        let epoch = (last_delivery >> EPOCH_BITS).saturating_add(openings);
        let epoch = epoch.min((u64::MAX >> EPOCH_BITS) - 2);
        let meta = Meta {
            last_id: last_id.saturating_add(most),
            last_delivery: last_delivery.max(epoch << EPOCH_BITS),
            revision: revision.saturating_add(most),
        };
        let hole = Hole { commits: None, meta };
        FrameTemplate { seed: self.files.seed, segment, commit, like, hole }
    }

    /// Overwrites a part of a segment after its old bytes are saved and its hint is removed. Returns the
    /// file with the old bytes.
    pub(super) fn write_over(
        &self,
        segment: u32,
        segment_file: &SegmentFile,
        (at, old): (u64, &[u8]),
        new: &[u8],
    ) -> Result<String, Error> {
        let saved = self.save(&damaged_name(segment, at), old)?;
        self.drop_hint(segment)?;
        segment_file.file.write(at, new).map_err(unavailable)?;
        segment_file.file.sync().map_err(unavailable)?;
        Ok(saved)
    }

    /// Removes the hint of a segment, if it has one.
    pub(super) fn drop_hint(&self, segment: u32) -> Result<(), Error> {
        if self.files.names.contains(&hint_name(segment)) {
            drop_hint(self.disk, segment)?;
        }
        Ok(())
    }

    /// Saves bytes in a file of their own. A file with other bytes is left as it is.
    fn save(&self, name: &str, bytes: &[u8]) -> Result<String, Error> {
        let mut name = name.to_owned();
        for nth in 2.. {
            let kept = match self.disk.open(&name, Open::Existing) {
                Ok(file) => scan::read_all(&*file).map_err(unavailable)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(unavailable(error)),
            };
            if kept.is_empty() || kept == bytes {
                break;
            }
            let end = name.rfind('.').unwrap_or(name.len());
            name.truncate(end);
            name.push_str(&format!(".{nth}"));
        }
        let file = self.disk.open(&name, Open::Create).map_err(unavailable)?;
        file.write(0, bytes).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        Ok(name)
    }
}

fn damaged_name(segment: u32, at: u64) -> String {
    format!("damaged-{segment}-{at}")
}
