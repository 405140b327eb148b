//! `repair`: replaces damage by holes, so that the store can be opened again.
//!
//! Nothing is destroyed: overwritten bytes are first copied to a file of their own. An interrupted
//! repair can be run again.

use std::collections::BTreeMap;

use super::commits::CommitChain;
use super::contents::Contents;
use super::files::{Frame, SegmentFile, StoreFiles};
use super::frame_rebuild::{FrameTemplate, MIN_FRAME_BYTES, RebuiltFrame, Replacement};
use super::gap_fill::GapFill;
use super::repair_report::{RepairReport, RepairStep};
use super::verify::{report, verify};
use crate::Error;
use crate::embedded::disk::{Disk, OpenMode};
use crate::embedded::frame::{FrameHeader, HEADER_BYTES};
use crate::embedded::record::{Hole, Meta, RecordLocation};
use crate::embedded::recover::{hint_name, unavailable};
use crate::embedded::replay::drop_hint;
use crate::embedded::scan;
use crate::embedded::segment::{self, HEAD_BYTES, SegmentHead};

/// Maximum passes: one per kind of damage, and one per kind hidden by another.
const MAX_PASSES: usize = 12;
/// Deliveries of one opening: see `recover.rs`.
const EPOCH_BITS: u32 = 40;
/// Maximum number of openings assumed to be missing.
const MAX_OPENINGS: u64 = 1 << 16;

/// Makes a damaged, closed store openable again, and reports what was done and lost. A store
/// without damage is not changed.
///
/// Records with a correct checksum stay. Other bytes are copied to `damaged-<segment>-<offset>` and
/// overwritten with a hole. Log files that do not belong to the store are copied to `aside-<file>`
/// and removed. A job whose changes are there but whose push is lost is removed.
pub fn repair(disk: &dyn Disk) -> Result<RepairReport, Error> {
    let mut repairs = RepairReport::default();
    for _ in 0..MAX_PASSES {
        if !RepairPass::begin(disk, &mut repairs)?.run()? {
            break;
        }
    }
    let report = verify(disk)?;
    match report.damage.first() {
        None => Ok(repairs),
        Some(damage) => Err(Error::Corrupt { what: format!("cannot repair {damage}") }),
    }
}

/// A frame of a segment, and the replacements of its records by their offset in it.
type FrameReplacements = (u32, Frame, BTreeMap<usize, Replacement>);

/// A pass: reads the whole store and repairs one kind of damage.
#[derive(Debug)]
pub(super) struct RepairPass<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) files: StoreFiles,
    pub(super) chain: CommitChain,
    pub(super) contents: Contents,
    pub(super) repairs: &'a mut RepairReport,
}

impl<'a> RepairPass<'a> {
    fn begin(disk: &'a dyn Disk, repairs: &'a mut RepairReport) -> Result<Self, Error> {
        let files = StoreFiles::read(disk)?;
        let chain = files.commit_chain();
        let contents = Contents::read(disk, &files, &chain)?;
        Ok(Self { disk, files, chain, contents, repairs })
    }

    /// Repairs one kind of damage, the one that may hide others; returns whether there was any.
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
                let step = RepairStep::new(hint_name(segment), 0, "wrong hint removed");
                self.repairs.steps.push(step);
            }
        }
        Ok(true)
    }

    fn set_foreign_aside(&mut self) -> Result<(), Error> {
        for one in std::mem::take(&mut self.files.foreign) {
            let name = segment::name(one.name);
            let file = self.disk.open(&name, OpenMode::Existing).map_err(unavailable)?;
            let bytes = scan::read_all(&*file).map_err(unavailable)?;
            let saved = self.save(&format!("aside-{name}"), &bytes)?;
            self.disk.remove(&name).map_err(unavailable)?;
            let mut step = RepairStep::new(name, 0, &format!("{}: set aside", one.what));
            step.saved = Some(saved);
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    fn rewrite_heads(&mut self) -> Result<(), Error> {
        for (number, segment_file) in
            self.files.segments.iter().filter(|(_, segment_file)| !segment_file.has_head)
        {
            let mut old = [0; HEAD_BYTES];
            segment_file.file.read(0, &mut old).map_err(unavailable)?;
            let saved = self.save(&damaged_name(*number, 0), &old)?;
            let (segment, seed) = (u64::from(*number), self.files.seed);
            let head = SegmentHead { segment, seed, size: segment_file.size };
            segment_file.file.write(0, &head.bytes()).map_err(unavailable)?;
            segment_file.file.sync().map_err(unavailable)?;
            let what = format!("head of segment {number} rebuilt from its frames");
            let mut step = RepairStep::new(segment_file.file_name(), 0, &what);
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
        let locations = bad.iter().map(|one| (one.location, Replacement::Hole));
        for (segment, frame, replacements) in self.group_by_frame(locations) {
            let mut step = self.replace(segment, frame, &replacements)?;
            step.what = "unreadable records of this frame replaced by holes".to_owned();
            step.commits = Some((frame.header.commit, frame.header.commit));
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    /// Removes jobs whose push is lost.
    fn remove_orphans(&mut self) -> Result<(), Error> {
        let orphans = std::mem::take(&mut self.contents.orphans);
        let locations = orphans.iter().map(|(id, location)| (*location, Replacement::Gone(*id)));
        for (segment, frame, replacements) in self.group_by_frame(locations) {
            let mut step = self.replace(segment, frame, &replacements)?;
            step.what = "removed changes of jobs whose push is lost".to_owned();
            step.jobs.clear();
            self.repairs.steps.push(step);
        }
        orphans.iter().for_each(|(id, _)| self.repairs.add_removed(*id));
        Ok(())
    }

    /// Groups the replacements of records by their frames.
    fn group_by_frame(
        &self,
        locations: impl Iterator<Item = (RecordLocation, Replacement)>,
    ) -> Vec<FrameReplacements> {
        let mut frames = BTreeMap::<(u32, u64), (Frame, BTreeMap<usize, Replacement>)>::new();
        for (location, replacements) in locations {
            let offset = u64::from(location.offset);
            let segment_file = self.files.segments.get(&location.segment);
            let holds = |frame: &&Frame| (frame.at..frame.end).contains(&offset);
            if let Some(frame) =
                segment_file.and_then(|segment_file| segment_file.frames.iter().find(holds))
            {
                let slot = frames.entry((location.segment, frame.at));
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
    ) -> Result<RepairStep, Error> {
        let Some(segment_file) = self.files.segments.get(&segment) else {
            return Ok(RepairStep::default());
        };
        let mut old = vec![0; (frame.end - frame.at) as usize];
        segment_file.file.read(frame.at, &mut old).map_err(unavailable)?;
        let template = self.template(segment, frame.header.commit, frame.header, old.len() as u64);
        let records = old.get(..HEADER_BYTES + frame.header.len as usize);
        let rebuilt = records.and_then(|records| template.replace(records, replacements));
        let rebuilt = rebuilt.unwrap_or_else(|| RebuiltFrame {
            bytes: template.filler(frame.end - frame.at, frame.last),
            kept: 0,
            lost: replacements.len(),
            jobs: Vec::new(),
        });
        let saved = self.write_over(segment, segment_file, (frame.at, &old), &rebuilt.bytes)?;
        let mut step = RepairStep::new(segment_file.file_name(), frame.at, "");
        (step.len, step.kept, step.lost) = (old.len() as u64, rebuilt.kept, rebuilt.lost);
        (step.saved, step.jobs) = (Some(saved), rebuilt.jobs);
        Ok(step)
    }

    /// The template of a rebuilt frame of this segment, where `lost` bytes are damaged.
    pub(super) fn template(
        &self,
        segment: u32,
        commit: u64,
        like: FrameHeader,
        lost: u64,
    ) -> FrameTemplate {
        let Meta { last_id, last_delivery, revision } = self.contents.meta;
        // Missing commits may have allocated numbers, with at least a few bytes each, and each
        // opening begins a new epoch of deliveries.
        let most = lost / 16 + 1;
        let openings = (lost / MIN_FRAME_BYTES + 1).min(MAX_OPENINGS);
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

    /// Overwrites a part of a segment after saving its old bytes and removing its hint. Returns the
    /// name of the file with the old bytes.
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

    /// Saves bytes in a file of their own. A file with other content is not overwritten.
    fn save(&self, name: &str, bytes: &[u8]) -> Result<String, Error> {
        let mut name = name.to_owned();
        for nth in 2.. {
            let kept = match self.disk.open(&name, OpenMode::Existing) {
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
        let file = self.disk.open(&name, OpenMode::Create).map_err(unavailable)?;
        file.write(0, bytes).map_err(unavailable)?;
        file.sync().map_err(unavailable)?;
        Ok(name)
    }
}

fn damaged_name(segment: u32, at: u64) -> String {
    format!("damaged-{segment}-{at}")
}
