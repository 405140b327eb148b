//! `verify`: reads all of a closed store, changes nothing, and lists the damage.

use crore_core::JobId;

use super::commits::{CommitChain, GapLocation};
use super::contents::Contents;
use super::files::{SegmentFile, StoreFiles};
use super::report::{Damage, VerifyReport};
use crate::Error;
use crate::embedded::disk::Disk;
use crate::embedded::record::RecordLocation;
use crate::embedded::recover::hint_name;
use crate::embedded::segment;

/// Reads all of a closed store and changes nothing. Fails if the disk cannot be read or has no
/// store.
pub fn verify(disk: &dyn Disk) -> Result<VerifyReport, Error> {
    let files = StoreFiles::read(disk)?;
    let chain = files.commit_chain();
    let contents = Contents::read(disk, &files, &chain)?;
    Ok(report(&files, &chain, &contents))
}

/// Builds the report from what was read.
pub(super) fn report(files: &StoreFiles, chain: &CommitChain, contents: &Contents) -> VerifyReport {
    let counts = || files.segments.range(files.oldest..);
    let first = counts().find_map(|(_, segment_file)| segment_file.frames.first());
    let used: u64 = counts().map(|(_, segment_file)| segment_file.end()).sum();
    let unfinished = chain.unfinished.map(|(segment, at, commit)| {
        format!("`{}`, offset {at}: commit {commit}", file_of(files, segment))
    });
    VerifyReport {
        files: files.names.len(),
        segments: counts().count(),
        commits: (first.map_or(0, |frame| frame.header.commit), chain.last),
        jobs: contents.jobs.clone(),
        live: contents.live,
        waste: used.saturating_sub(contents.live),
        unfinished,
        holes: holes(files, contents),
        damage: damage(files, chain, contents),
    }
}

fn file_of(files: &StoreFiles, segment: u32) -> String {
    let segment_file = files.segments.get(&segment);
    segment_file.map_or_else(|| format!("segment {segment}"), SegmentFile::file_name)
}

fn holes(files: &StoreFiles, contents: &Contents) -> Vec<Damage> {
    let hole = |(location, commits): &(RecordLocation, Option<(u64, u64)>)| Damage {
        file: file_of(files, location.segment),
        offset: location.offset.into(),
        len: location.len.into(),
        what: "an earlier repair found damage here".to_owned(),
        commits: *commits,
    };
    contents.holes.iter().map(hole).collect()
}

/// All damage, in the order in which a repair removes it.
fn damage(files: &StoreFiles, chain: &CommitChain, contents: &Contents) -> Vec<Damage> {
    let mut all = Vec::new();
    let at_head = |name: u64, len: u64, what: String| Damage {
        file: segment::name(name),
        offset: 0,
        len,
        what,
        commits: None,
    };
    for one in &files.foreign {
        all.push(at_head(one.name, 0, one.what.clone()));
    }
    for (number, segment_file) in files.segments.range(files.oldest..) {
        if !segment_file.has_head {
            let what = format!("the head of segment {number} is damaged, or the file is truncated");
            all.push(at_head(segment_file.name, segment::HEAD_BYTES as u64, what));
        }
    }
    for gap in &chain.gaps {
        all.extend(gap.locations.iter().map(|location| missing(files, *location, gap.commits())));
    }
    all.extend(contents.bad.iter().map(|bad| Damage {
        file: file_of(files, bad.location.segment),
        offset: bad.location.offset.into(),
        len: bad.location.len.into(),
        what: format!("unreadable record: {}", bad.what),
        commits: Some((bad.frame.header.commit, bad.frame.header.commit)),
    }));
    all.extend(contents.orphans.iter().map(|(JobId(id), location)| Damage {
        file: file_of(files, location.segment),
        offset: location.offset.into(),
        len: location.len.into(),
        what: format!("job {id} changed here, but its push is lost"),
        commits: None,
    }));
    all.extend(contents.false_hints.iter().map(|segment| Damage {
        file: hint_name(*segment),
        offset: 0,
        len: 0,
        what: format!(
            "does not match segment {segment}, or the file of the next segment is missing"
        ),
        commits: None,
    }));
    all
}

fn missing(files: &StoreFiles, location: GapLocation, commits: (u64, u64)) -> Damage {
    let commits = Some(commits).filter(|(first, last)| first <= last);
    match location {
        GapLocation::Bytes { segment, from, to } => {
            let segment_file = files.segments.get(&segment);
            let stop = segment_file.and_then(|segment_file| segment_file.stops.get(&from)).copied();
            Damage {
                file: file_of(files, segment),
                offset: from,
                len: to.map_or(0, |to| to - from),
                what: stop.unwrap_or("unexpected end of file").to_owned(),
                commits,
            }
        }
        GapLocation::Segments { first, last } => {
            let which = if first == last {
                format!("segment {first}")
            } else {
                format!("segments {first} to {last}")
            };
            let what = "the file is missing".to_owned();
            Damage { file: which, offset: 0, len: 0, what, commits }
        }
    }
}
