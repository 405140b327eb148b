//! Repairing a store: damage becomes holes, so that everything else can be opened again.
//!
//! Nothing is destroyed: the bytes that are written over are first kept in a file of their own. A
//! repair that was interrupted is run again and goes on with what is left to do.

use std::collections::BTreeMap;

use super::disk::{Disk, Open};
use super::examine::{Exam, examine};
use super::fill::Filling;
use super::frame::{HEADER, Header};
use super::gaps::Chain;
use super::mend::{Form, Instead, Mended};
use super::record::{Hole, Meta, Spot};
use super::recover::{hint_name, unavailable};
use super::repairs::{Repairs, Step};
use super::replay::drop_hint;
use super::scan;
use super::segment::{self, HEAD, Head};
use super::survey::{Frame, Seen, Survey};
use super::verify::{Report, verify};
use crate::Error;

/// Rounds of reading everything: one for each sort of damage, and one for each that another hides.
const ROUNDS: usize = 12;
/// Deliveries of one opening: see `recover.rs`.
const EPOCH_BITS: u32 = 40;
/// No repair believes that more openings than this are missing.
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
        if !Round::begin(disk, &mut repairs)?.go()? {
            break;
        }
    }
    let report = verify(disk)?;
    match report.damage.first() {
        None => Ok(repairs),
        Some(damage) => Err(Error::Corrupt { what: format!("no repair is known for {damage}") }),
    }
}

/// A frame of a segment, and what is to stand instead of the records that begin at these places of it.
type InFrame = (u32, Frame, BTreeMap<usize, Instead>);

/// One look at everything, and what is done about it.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) survey: Survey,
    pub(crate) chain: Chain,
    pub(crate) exam: Exam,
    pub(crate) repairs: &'a mut Repairs,
}

impl<'a> Round<'a> {
    fn begin(disk: &'a dyn Disk, repairs: &'a mut Repairs) -> Result<Self, Error> {
        let survey = Survey::read(disk)?;
        let chain = survey.chain();
        let exam = examine(disk, &survey, &chain)?;
        Ok(Self { disk, survey, chain, exam, repairs })
    }

    /// Mends damage of one sort, the one that may hide others; says whether there was any.
    fn go(mut self) -> Result<bool, Error> {
        if Report::new(&self.survey, &self.chain, &self.exam).is_good() {
            return Ok(false);
        }
        if !self.survey.intruders.is_empty() {
            self.set_aside()?;
        } else if self.survey.segments.values().any(|seen| !seen.has_head) {
            self.mend_heads()?;
        } else if !self.chain.gaps.is_empty() {
            self.fill_gaps()?;
        } else if !self.exam.bad.is_empty() {
            self.mend_records()?;
        } else if !self.exam.orphans.is_empty() {
            self.leave_out()?;
        } else {
            for segment in std::mem::take(&mut self.exam.false_hints) {
                self.drop_hint(segment)?;
                let step = Step::new(hint_name(segment), 0, "a hint that was wrong is removed");
                self.repairs.steps.push(step);
            }
        }
        Ok(true)
    }

    fn set_aside(&mut self) -> Result<(), Error> {
        for one in std::mem::take(&mut self.survey.intruders) {
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

    fn mend_heads(&mut self) -> Result<(), Error> {
        for (number, seen) in self.survey.segments.iter().filter(|(_, seen)| !seen.has_head) {
            let mut old = [0; HEAD];
            seen.file.read(0, &mut old).map_err(unavailable)?;
            let saved = self.save(&damaged_name(*number, 0), &old)?;
            let (segment, seed) = (u64::from(*number), self.survey.seed);
            let head = Head { segment, seed, size: seen.size };
            seen.file.write(0, &head.bytes()).map_err(unavailable)?;
            seen.file.sync().map_err(unavailable)?;
            let what = format!("the head of segment {number} is written anew, from its frames");
            let mut step = Step::new(seen.file_name(), 0, &what);
            step.saved = Some(saved);
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    fn fill_gaps(&mut self) -> Result<(), Error> {
        for gap in std::mem::take(&mut self.chain.gaps) {
            Filling::new(self, &gap)?.fill()?;
        }
        Ok(())
    }

    /// Writes holes over records that make no sense.
    fn mend_records(&mut self) -> Result<(), Error> {
        let bad = std::mem::take(&mut self.exam.bad);
        let spots = bad.iter().map(|one| (one.spot, Instead::Hole));
        for (segment, frame, instead) in self.by_frame(spots) {
            let mut step = self.replace(segment, frame, &instead)?;
            step.what = "what cannot be read in this frame is a hole now".to_owned();
            step.commits = Some((frame.header.commit, frame.header.commit));
            self.repairs.steps.push(step);
        }
        Ok(())
    }

    /// Removes jobs of which only changes are left.
    fn leave_out(&mut self) -> Result<(), Error> {
        let orphans = std::mem::take(&mut self.exam.orphans);
        let spots = orphans.iter().map(|(id, spot)| (*spot, Instead::Gone(*id)));
        for (segment, frame, instead) in self.by_frame(spots) {
            let mut step = self.replace(segment, frame, &instead)?;
            step.what = "changes of jobs whose push is lost are taken out".to_owned();
            step.jobs.clear();
            self.repairs.steps.push(step);
        }
        orphans.iter().for_each(|(id, _)| self.repairs.leave_out(*id));
        Ok(())
    }

    /// The frames that these records are in, and where in them each begins.
    fn by_frame(&self, spots: impl Iterator<Item = (Spot, Instead)>) -> Vec<InFrame> {
        let mut frames = BTreeMap::<(u32, u64), (Frame, BTreeMap<usize, Instead>)>::new();
        for (spot, instead) in spots {
            let offset = u64::from(spot.offset);
            let seen = self.survey.segments.get(&spot.segment);
            let holds = |frame: &&Frame| (frame.at..frame.end).contains(&offset);
            if let Some(frame) = seen.and_then(|seen| seen.frames.iter().find(holds)) {
                let slot = frames.entry((spot.segment, frame.at));
                let (_, all) = slot.or_insert_with(|| (*frame, BTreeMap::new()));
                all.insert((offset - frame.at) as usize, instead);
            }
        }
        frames.into_iter().map(|((segment, _), (frame, all))| (segment, frame, all)).collect()
    }

    /// Puts something else instead of some records of a good frame.
    fn replace(
        &self,
        segment: u32,
        frame: Frame,
        instead: &BTreeMap<usize, Instead>,
    ) -> Result<Step, Error> {
        let Some(seen) = self.survey.segments.get(&segment) else { return Ok(Step::default()) };
        let mut old = vec![0; (frame.end - frame.at) as usize];
        seen.file.read(frame.at, &mut old).map_err(unavailable)?;
        let form = self.form(segment, frame.header.commit, frame.header, old.len() as u64);
        let records = old.get(..HEADER + frame.header.len as usize);
        let mended = records.and_then(|records| form.replace(records, instead));
        let mended = mended.unwrap_or_else(|| Mended {
            bytes: form.filler(frame.end - frame.at, frame.last),
            kept: 0,
            lost: instead.len(),
            jobs: Vec::new(),
        });
        let saved = self.write_over(segment, seen, (frame.at, &old), &mended.bytes)?;
        let mut step = Step::new(seen.file_name(), frame.at, "");
        (step.len, step.kept, step.lost) = (old.len() as u64, mended.kept, mended.lost);
        (step.saved, step.jobs) = (Some(saved), mended.jobs);
        Ok(step)
    }

    /// What a frame of this segment says that is built anew, where so many bytes are lost.
    pub(crate) fn form(&self, segment: u32, commit: u64, like: Header, lost: u64) -> Form {
        let Meta { last_id, last_delivery, revision } = self.exam.meta;
        // What is missing may have given out numbers: a few bytes for each at least, and an opening
        // begins a new epoch of deliveries.
        let most = lost / 16 + 1;
        let openings = (lost / super::mend::LEAST + 1).min(MOST_OPENINGS);
        let epoch = (last_delivery >> EPOCH_BITS).saturating_add(openings);
        let epoch = epoch.min((u64::MAX >> EPOCH_BITS) - 2);
        let meta = Meta {
            last_id: last_id.saturating_add(most),
            last_delivery: last_delivery.max(epoch << EPOCH_BITS),
            revision: revision.saturating_add(most),
        };
        let hole = Hole { commits: None, meta };
        Form { seed: self.survey.seed, segment, commit, like, hole }
    }

    /// Writes over a part of a segment, once its old bytes are kept elsewhere and no hint speaks of
    /// them any more. Gives the file that they are kept in.
    pub(crate) fn write_over(
        &self,
        segment: u32,
        seen: &Seen,
        (at, old): (u64, &[u8]),
        new: &[u8],
    ) -> Result<String, Error> {
        let saved = self.save(&damaged_name(segment, at), old)?;
        self.drop_hint(segment)?;
        seen.file.write(at, new).map_err(unavailable)?;
        seen.file.sync().map_err(unavailable)?;
        Ok(saved)
    }

    /// Removes the hint of a segment, if it has one.
    pub(crate) fn drop_hint(&self, segment: u32) -> Result<(), Error> {
        if self.survey.names.contains(&hint_name(segment)) {
            drop_hint(self.disk, segment)?;
        }
        Ok(())
    }

    /// Keeps bytes in a file of their own. What is kept already is left as it is.
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
