//! Verifying a store: everything in it is read, and nothing is changed.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crore_core::{JobId, State};

use super::disk::Disk;
use super::examine::{Exam, examine};
use super::gaps::{Chain, Place};
use super::recover::hint_name;
use super::segment;
use super::survey::Survey;
use crate::Error;

/// What a store holds, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// How many files there are, whatever they are.
    pub files: usize,
    /// How many of them hold the log.
    pub segments: usize,
    /// The first and the last commit; zeros if there is none.
    pub commits: (u64, u64),
    /// How many jobs there are in each state; zeros are left out.
    pub jobs: BTreeMap<State, u64>,
    /// The bytes of the newest records of jobs.
    pub live: u64,
    /// The bytes of all other records, which are there until their segments are given up.
    pub waste: u64,
    /// Where the log ends in a commit that was not finished. That is no damage: nobody was told that
    /// it was, and the next opening wipes it.
    pub unfinished: Option<String>,
    /// What earlier repairs could not bring back.
    pub holes: Vec<Damage>,
    /// What is wrong. A store with damage is not opened, or fails when it comes to it.
    pub damage: Vec<Damage>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// How many bytes; 0: nobody knows.
    pub len: u64,
    /// What.
    pub what: String,
    /// The first and the last commit that are missing or in part missing, if there are such. 0 as the
    /// first: nobody knows how many before the last.
    pub commits: Option<(u64, u64)>,
}

/// Reads all of a store that is not open, and changes nothing. An error means that it could not be
/// read at all, or that it is no store.
pub fn verify(disk: &dyn Disk) -> Result<Report, Error> {
    let survey = Survey::read(disk)?;
    let chain = survey.chain();
    let exam = examine(disk, &survey, &chain)?;
    Ok(Report::new(&survey, &chain, &exam))
}

impl Report {
    pub(crate) fn new(survey: &Survey, chain: &Chain, exam: &Exam) -> Self {
        let counts = || survey.segments.range(survey.oldest..);
        let first = counts().find_map(|(_, seen)| seen.frames.first());
        let used: u64 = counts().map(|(_, seen)| seen.end()).sum();
        let unfinished = chain.unfinished.map(|(segment, at, commit)| {
            format!("`{}`, offset {at}: commit {commit}", file_of(survey, segment))
        });
        Self {
            files: survey.names.len(),
            segments: counts().count(),
            commits: (first.map_or(0, |frame| frame.header.commit), chain.last),
            jobs: exam.jobs.clone(),
            live: exam.live,
            waste: used.saturating_sub(exam.live),
            unfinished,
            holes: holes(survey, exam),
            damage: damage(survey, chain, exam),
        }
    }

    /// Whether there is no damage.
    pub const fn is_good(&self) -> bool {
        self.damage.is_empty()
    }
}

fn file_of(survey: &Survey, segment: u32) -> String {
    let seen = survey.segments.get(&segment);
    seen.map_or_else(|| format!("segment {segment}"), super::survey::Seen::file_name)
}

fn holes(survey: &Survey, exam: &Exam) -> Vec<Damage> {
    let hole = |(spot, commits): &(super::record::Spot, Option<(u64, u64)>)| Damage {
        file: file_of(survey, spot.segment),
        offset: spot.offset.into(),
        len: spot.len.into(),
        what: "an earlier repair found damage here".to_owned(),
        commits: *commits,
    };
    exam.holes.iter().map(hole).collect()
}

/// Everything that is wrong, in the order in which a repair mends it.
fn damage(survey: &Survey, chain: &Chain, exam: &Exam) -> Vec<Damage> {
    let mut all = Vec::new();
    let at_head = |name: u64, len: u64, what: String| Damage {
        file: segment::name(name),
        offset: 0,
        len,
        what,
        commits: None,
    };
    for one in &survey.intruders {
        all.push(at_head(one.name, 0, one.what.clone()));
    }
    for (number, seen) in survey.segments.range(survey.oldest..) {
        if !seen.has_head {
            let what = format!("the head of segment {number} is damaged, or its end is cut off");
            all.push(at_head(seen.name, segment::HEAD as u64, what));
        }
    }
    for gap in &chain.gaps {
        all.extend(gap.places.iter().map(|place| missing(survey, *place, gap.commits())));
    }
    all.extend(exam.bad.iter().map(|bad| Damage {
        file: file_of(survey, bad.spot.segment),
        offset: bad.spot.offset.into(),
        len: bad.spot.len.into(),
        what: format!("a record that cannot be read: {}", bad.what),
        commits: Some((bad.frame.header.commit, bad.frame.header.commit)),
    }));
    all.extend(exam.orphans.iter().map(|(JobId(id), spot)| Damage {
        file: file_of(survey, spot.segment),
        offset: spot.offset.into(),
        len: spot.len.into(),
        what: format!("job {id} changed here, but what was pushed is not there any more"),
        commits: None,
    }));
    all.extend(exam.false_hints.iter().map(|segment| Damage {
        file: hint_name(*segment),
        offset: 0,
        len: 0,
        what: format!(
            "it does not say what segment {segment} says, or the file of the next one is missing"
        ),
        commits: None,
    }));
    all
}

fn missing(survey: &Survey, place: Place, commits: (u64, u64)) -> Damage {
    let commits = Some(commits).filter(|(first, last)| first <= last);
    match place {
        Place::Stretch { segment, from, to } => {
            let seen = survey.segments.get(&segment);
            let stop = seen.and_then(|seen| seen.stops.get(&from)).copied();
            Damage {
                file: file_of(survey, segment),
                offset: from,
                len: to.map_or(0, |to| to - from),
                what: stop.unwrap_or("the file ends here, and should not").to_owned(),
                commits,
            }
        }
        Place::Files { first, last } => {
            let which = if first == last {
                format!("segment {first}")
            } else {
                format!("segments {first} to {last}")
            };
            let what = "no file holds it".to_owned();
            Damage { file: which, offset: 0, len: 0, what, commits }
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (first, last) = self.commits;
        writeln!(f, "files      {}, {} of them segments of the log", self.files, self.segments)?;
        writeln!(f, "commits    {first} to {last}")?;
        let all: u64 = self.jobs.values().sum();
        let states: Vec<_> = self.jobs.iter().map(|(state, n)| format!("{n} {state:?}")).collect();
        let states = states.join(", ").to_lowercase();
        let of = if states.is_empty() { "" } else { ": " };
        writeln!(f, "jobs       {all}{of}{states}")?;
        writeln!(f, "bytes      {} live, {} waste", self.live, self.waste)?;
        if let Some(unfinished) = &self.unfinished {
            writeln!(f, "unfinished {unfinished} (no damage: nobody was told that it was done)")?;
        }
        list(f, "hole", &self.holes)?;
        list(f, "damage", &self.damage)?;
        match self.damage.len() {
            0 => write!(f, "good: no damage found"),
            1 => write!(f, "DAMAGED in one place"),
            n => write!(f, "DAMAGED in {n} places"),
        }
    }
}

/// How many places are shown one by one.
const SHOWN: usize = 100;

fn list(f: &mut Formatter<'_>, label: &str, all: &[Damage]) -> fmt::Result {
    for one in all.iter().take(SHOWN) {
        writeln!(f, "{label:<10} {one}")?;
    }
    match all.len().checked_sub(SHOWN) {
        Some(more @ 1..) => writeln!(f, "{label:<10} and {more} more"),
        _ => Ok(()),
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.offset > 0 {
            write!(f, ", offset {}", self.offset)?;
        }
        if self.len > 0 {
            write!(f, ", {} bytes", self.len)?;
        }
        write!(f, ": {}", self.what)?;
        match self.commits {
            None => Ok(()),
            Some((0, last)) => write!(f, " (commits up to {last})"),
            Some((first, last)) if first == last => write!(f, " (commit {first})"),
            Some((first, last)) => write!(f, " (commits {first} to {last})"),
        }
    }
}
